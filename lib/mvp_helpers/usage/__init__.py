"""Where the hardware of a job goes: samples of every worker while it runs, what they show, and the memory that runs out."""
