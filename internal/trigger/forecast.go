package trigger

func compileForecast(c *compiler, n *node) evaluator {
	return refuse("not yet computed")(c, n)
}
