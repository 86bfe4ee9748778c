"""What the line of code that raised shows about its exception."""

import pytest

from mvp_helpers.log_text import code_line

SHOWN = [
    # error, line of code, what it shows
    ("KeyError: 'dims'", 'hparams = checkpoint["dims"]', "print(list(checkpoint)) just before that line: the key 'dims'"),
    ("KeyError: 'b'", "return ret[0]['a']['b']", "print(list(ret[0]['a'])) "),
    ("KeyError: 'chess'", "return games[name]", "print(list(games)) just before that line: the key 'chess' (name)"),
    ("KeyError: 0", "img = Image.open(self.images[i], mode='r')", "print(type(self.images), list(self.images)[:5])"),
    ("IndexError: list index out of range", "row = rows[at + 1]", "print(len(rows), at + 1) just before that line"),
    ("IndexError: list index out of range", "if sys.argv[2] == 'x':", "print(len(sys.argv)) just before that line"),
    ("ZeroDivisionError: division by zero", "return total / len(answers)", "len(answers) is 0 there"),
    (
        "AttributeError: 'NoneType' object has no attribute 'end'",
        "x = re.match(p, s).end(1)",
        "re.match(p, s) returned None",
    ),
    ("AttributeError: 'NoneType' object has no attribute 'shape'", "n = batch.mask.shape[0]", "batch.mask is None there"),
    (
        "AttributeError: 'Command' object has no attribute 'phase'",
        "ids = command.phase  # [N]",
        "command is of the type Command there: what made it, and its class (grep -rn 'class Command'",
    ),
    ("TypeError: 'NoneType' object is not subscriptable", "lr = config['lr']", "config is None there"),
    ("TypeError: 'NoneType' object is not callable", "y = self.norm(x)", "self.norm is None there"),
    ("TypeError: 'NoneType' object is not iterable", "for row in load(path):", "load(path) returned None there"),
    ("TypeError: cannot unpack non-iterable NoneType object", "a, b = find(path)", "find(path) returned None there"),
    (
        "AssertionError: assert x",
        "assert args.seq_length is not None",
        "args.seq_length is None there: set the option --",
    ),
    ("AssertionError: assert False", "assert False", "the line ends the program on purpose"),
    ("ValueError: not enough values to unpack (expected 3, got 2)", "a, b, c = draw(img)", "draw(img) gives 2 values where"),
    ("ValueError: too many values to unpack (expected 2)", "a, b = self.step(x)", "self.step(x) gives more values where 2"),
    ("AttributeError: 'Tensor' object has no attribute 'rows'", "n = x.rows", "x is of the type Tensor there: what made"),
    ("IndexError: tuple index out of range", "n = steps[x.shape[1]]", "print(len(steps), x.shape[1])"),
    ("AssertionError", "assert state is not None", "state is None there, and what sets it"),
    ("AssertionError", "assert hidden % heads == 0, 'no'", "print(hidden, heads) just before that line: the condition is false"),
    (
        "RuntimeError: judge failed with 25 errors in 3.5 s",
        'raise RuntimeError(f"judge failed with {errors} errors in {seconds} s")',
        "what gives errors (25) and seconds (3.5) that value",
    ),
    (
        "ValueError: d_model (128) must be divisible by heads (13)",
        'raise ValueError(f"d_model ({cfg.d_model}) must be divisible by heads ({cfg.heads})")',
        "what gives cfg.d_model (128) and cfg.heads (13) that value",
    ),
    (
        "TypeError: cannot concatenate object",
        "texts = pd.concat([data['train']['targets'],",
        "print(data['train']['targets'])",
    ),
    (
        "RuntimeError: batch1 must be a 3D tensor",
        "out = torch.bmm(scores, v)",
        "the shapes of scores and v ",
    ),
    ("TypeError: bad value", "labels=labels, predictions=argmax(logits, axis=1))", "print(labels, logits) just before that line"),
    (
        'TypeError: can only concatenate str (not "NoneType") to str',
        "text = cfg['a'] + ins +",
        "print(cfg['a'], ins) just before",
    ),
    ("TypeError: tuple indices must be integers", "hidden = outputs.states[self.which]", "print(outputs.states, self.which)"),
    ("KeyError: 'hint'", "reward = cls._registry[name]", "what is registered there (print(list(cls._registry)))"),
    ("AttributeError: 'Rows' object has no attribute 'prompts'", "n = len(self.prompts)", "where Rows sets that attribute"),
    (
        "TypeError: 'NoneType' object is not iterable",
        "for a, b in zip(xs, ys):",
        "print(xs, ys) just before that line: what is None",
    ),
    ("AttributeError: 'list' object has no attribute 'to'", "q = list(q).to(device)", "list(q) makes a list there"),
    ("TypeError: 'list' object is not callable", "x = self.losses(a, b)", "self.losses is of the type list there: what made it"),
    ("TypeError: 'int' object is not subscriptable", "x = f(a)[0]", "f(a) returned a value of the type int there"),
    ("ValueError: max() arg is an empty sequence", "m = max(len(x) for x in xs)", "print(xs) just before that line"),
    ("TypeError: bad value", "elif rate > limits.high:", "print(rate, limits.high) just before that line"),
]
SHOWS_NOTHING = [
    ("AssertionError: param and grad have different shape torch.Size([9]) vs torch.Size([7])", "trainer.fit(use_lora=args.rank)"),
    ("ValueError: Got 1, 2, 3", 'raise ValueError(f"Got {shape}, {n}")'),
    ("ValueError: bad 3 and 4", 'raise ValueError(f"bad {x}"'),
    ("KeyError: 'pop from an empty set'", "x = pools[i].pop()"),
    ("KeyError: 'popitem(): dictionary is empty'", "x = pools[i].popitem()"),
    ("KeyError: 'labels'", "labels = [each[name] for each in rows]"),
    ("KeyError: 'a'", "totals[name] = work(x)"),
    ("IndexError: pop from empty list", "x = stacks[i].pop()"),
    ("IndexError: too many indices for tensor of dimension 1", "x = t[:, 0]"),
    ("IndexError: list index out of range", "x = t[1:, k]"),
    ("IndexError: only integers, slices (`:`) are valid indices", "x = t[k]"),
    ("IndexError: list index out of range", "ys = [row[2] for row in rows]"),
    ("IndexError: list index out of range", "best = sorted(xs, key=lambda p: p[1])"),
    ("ZeroDivisionError: float division by zero", "x = sum(a / 2 for a in map(ratio, b))"),
    ("ZeroDivisionError: 0.0 cannot be raised to a negative power", "scale = step ** -0.5 / 2"),
    ("ZeroDivisionError: division by zero", "print('rate %f' % rate(a, b))"),
    ("AttributeError: 'float' object has no attribute 'sqrt'", "y = np.sqrt(x)"),
    ("AttributeError: 'super' object has no attribute 'bar'", "return super().bar(x)"),
    ("StopIteration", "batch = next(rows)"),
    ("StopIteration: batch = next(rows)", "batch = next(rows)"),
    ("RuntimeError", "y = self.f(x)"),
    ("IndexError: list index out of range", "a" + "[0]" * 330),
    ("RuntimeError: bad", ""),
    ("RuntimeError: bad", "sys.exit(main())"),
    ("RuntimeError: bad", "super().__init__(*args, **kwargs)"),
    ("RuntimeError: bad", "out = layer("),
    ("RuntimeError: bad", "f(" * 5000),
    ("RuntimeError: bad", "\0"),
    ("RuntimeError: bad", "~~~~~^^^^^^"),
    ("RuntimeError: bad", "raise RuntimeError('bad')"),
    ("RuntimeError: another message", 'raise RuntimeError(f"judge failed with {errors} errors")'),
    ("KeyError: 'a'", "total = counts[x] + sizes[y]"),
    ("KeyError: 'a'", "trainer.train()"),
    ("AttributeError: 'A' object has no attribute 'b'", "trainer.train()"),
    ("ZeroDivisionError: division by zero", "x = a / b + c / d"),
]


@pytest.mark.parametrize(("error", "code", "shown"), SHOWN)
def test_the_line_that_raised_shows_what_to_look_at(error: str, code: str, shown: str) -> None:
    assert code_line.shows(error, code).startswith(shown)


@pytest.mark.parametrize(("error", "code"), SHOWS_NOTHING)
def test_a_line_without_the_value_shows_nothing(error: str, code: str) -> None:
    assert code_line.shows(error, code) == ""


@pytest.mark.parametrize("error", ["KeyError: 'a'", "IndexError: list index out of range", "RuntimeError: bad"])
def test_an_error_from_deep_below_is_not_about_the_values_of_the_line(error: str) -> None:
    assert code_line.shows(error, "model(batch[index])", below=code_line.NEAR + 1) == ""


def test_the_names_of_a_long_line_are_shortened() -> None:
    values = ", ".join(letter + "x" * 80 for letter in "abcdefgh")
    text = code_line.shows("RuntimeError: bad", f"f({values})")
    assert len(text) < 400
    assert text.startswith("print(ax")


@pytest.mark.filterwarnings("error")
def test_code_with_an_odd_escape_prints_no_warning() -> None:
    assert code_line.shows("TypeError: bad", r"m = re.match('\d', line)").startswith("print(line)")


ODD = [
    "x = " + "-" * 900 + "y",
    "f(" + "a." * 300 + "b)",
    "a" + "[0]" * 300,
    "raise X(f'')",
    "raise X(f'{a!r:>{w}}')",
    "raise X(f'{x}' f'{y} z')",
    "assert (x := f(y)) > 3, x",
    "async with a as b:",
    "@decorator(x)",
    "match x:",
    "del a['b']",
    "global x",
    "\u2028x",
    "x = 0o9",
]


@pytest.mark.parametrize("error", sorted({error for error, _, _ in SHOWN}))
def test_no_odd_code_prevents_an_answer(error: str) -> None:
    for code in ODD:
        assert len(code_line.shows(error, code)) < 500
