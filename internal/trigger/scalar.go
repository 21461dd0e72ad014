package trigger

// scalarFunction returns the compiler of a function over operands.
func scalarFunction(name string) func(c *compiler, n *node) evaluator { return nil }
