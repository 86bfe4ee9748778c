"""What the toolkit adds to verl from outside, without a change in verl's files.

verl imports ``mvp_verl.hook`` by itself, in the driver and in every Ray worker, because the workloads name it in
``VERL_USE_EXTERNAL_MODULES``. This package itself does nothing when it is imported.
"""
