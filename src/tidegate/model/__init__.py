"""The controller's models of application behaviour. The simulator's plant never uses them."""
