"""What the sensors wait for, as asynchronous conditions."""
