package trigger

func compileTrend(c *compiler, n *node) evaluator    { return refuse("not yet computed")(c, n) }
func compileBaseline(c *compiler, n *node) evaluator { return refuse("not yet computed")(c, n) }
