package scenario

// Figure is what an objective can be set for. internal/load knows how it is found in a
// report.
type Figure struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Unit  string `json:"unit"`            // of its limit, once written without
	Least bool   `json:"least,omitempty"` // the limit is a minimum
	Needs string `json:"needs,omitempty"` // what a scenario must have for it: faults, restart, intent, lists, applies, watches, step, settle
}

// Figures are all of them, in the order in which reports show them.
func Figures() []Figure {
	return []Figure{
		{"rate", "acknowledged", "results/s", true, ""},
		{"saturation", "acknowledged in the last step that held", "results/s", true, "step"},
		{"p99", "p99 from intended to acknowledged", "ms", false, ""},
		{"beyond-p99", "p99 beyond the linger", "ms", false, ""},
		{"machine", "both processes, of the machine", "%", false, ""},
		{"server-cpu", "server CPU per result", "µs", false, ""},
		{"agent-memory", "resident on the server per agent", "kB", false, ""},
		{"loader-memory", "resident on the loader per agent", "kB", false, ""},
		{"state-memory", "resident per event state", "B", false, ""},
		{"connect", "until every agent had a session", "s", false, ""},
		{"settle", "until it was steady again", "s", false, "settle"},
		{"detect", "from a fault to its last alert", "s", false, "faults"},
		{"clear", "from a fault's end to its last resolution", "s", false, "faults"},
		{"back", "until all agents were back", "s", false, "outage"},
		{"back-serving", "from serving until all agents were back", "s", false, "restart"},
		{"serving", "until the server was ready again", "s", false, "restart"},
		{"acknowledging", "until it acknowledged again", "s", false, "outage"},
		{"holds-p99", "p99 until an agent held what was changed", "ms", false, "intent"},
		{"list-p99", "p99 of a page, for people who list", "ms", false, "lists"},
		{"apply-p99", "p99 of a resource written", "ms", false, "applies"},
		{"watch-p99", "p99 from a change until those who watch saw it", "ms", false, "watches"},
		{"page-p99", "p99 of a page of 100, worst kind", "ms", false, "pages"},
		{"search-max", "longest answer to a free condition", "ms", false, "pages"},
	}
}

// FigureOf finds one by its name.
func FigureOf(name string) (Figure, bool) {
	for _, f := range Figures() {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}
