"""The controller's models of how applications behave; the simulator's plant never uses them."""
