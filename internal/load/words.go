package load

// Words are what a goal is of, what was asked and what came, each with its unit.
func (g Goal) Words() (what, asked, got string) {
	f, ok := figureOf(g.Name)
	if !ok {
		f.What = g.Name
	}
	if g.Phase != "" {
		f.What = g.Phase + ": " + f.What
	}
	return f.What, g.asked(f), g.got(f)
}

// Least says whether the goal's limit is a minimum.
func (g Goal) Least() bool {
	f, _ := figureOf(g.Name)
	return f.Least
}
