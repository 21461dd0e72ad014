package scenario

// Figure is a measured figure: objectives limit it, comparisons of runs compare it. internal/load/report has its value.
type Figure struct {
	Name  string
	What  string
	Unit  string // of its limit, once written without
	Least bool   // the limit is a minimum: more is better
	Needs string // its cause in a scenario, see causes; empty: every run has it
	Kind  Kind
	Grain float64 // the smallest change worth a word, as a share: 0.01
	Phase bool    // each phase has one of its own, and objectives of a phase may limit it
}

// Kind says whether a figure can be compared with that of another day or machine.
type Kind string

// The kinds.
const (
	Count    Kind = "count"    // a number of things or bytes: nearly the same wherever it is counted
	Relative Kind = "relative" // a part of something else that the same run measured
	Absolute Kind = "absolute" // times, CPU, rates: of this machine on this day
)

// Kinds returns all kinds of figures.
func Kinds() []Kind { return []Kind{Count, Relative, Absolute} }

// Per1000 is the unit of counts that are small for one result.
const Per1000 = "per 1,000 results"

// Figures returns all figures, in the order of reports. Memory depends on the last run of the garbage collector too:
// hence its grain.
func Figures() []Figure {
	return []Figure{
		{"rate", "acknowledged", "results/s", true, "", Absolute, 0.02, true},
		{"held", "acknowledged in time, of what was offered", "%", true, "", Relative, 0.01, true},
		{"saturation", "acknowledged in the last step that held", "results/s", true, "step", Absolute, 0.05, false},
		{"p50", "p50 from intended to acknowledged", "ms", false, "", Absolute, 0.05, true},
		{"p99", "p99 from intended to acknowledged", "ms", false, "", Absolute, 0.05, true},
		{"p999", "p99.9 from intended to acknowledged", "ms", false, "", Absolute, 0.1, true},
		{"max", "slowest from intended to acknowledged", "ms", false, "", Absolute, 0.1, true},
		{"beyond-p50", "p50 beyond the linger", "ms", false, "", Absolute, 0.05, true},
		{"beyond-p99", "p99 beyond the linger", "ms", false, "", Absolute, 0.05, true},
		{"machine", "both processes, of the machine", "%", false, "", Absolute, 0.05, true},
		{"server-cpu", "server CPU per result", "µs", false, "", Absolute, 0.05, true},
		{"loader-cpu", "loader CPU per result", "µs", false, "", Absolute, 0.05, true},
		{"cpu-ratio", "server CPU, of the loader's", "%", false, "", Relative, 0.05, true},
		{"gc-cpu", "CPU of the server's garbage collector per result", "µs", false, "", Absolute, 0.1, false},
		{"lock-share", "time that goroutines of the server waited for locks, of its processors'", "%", false, "", Absolute, 0.1, false},
		{"allocs", "allocations of the server", Per1000, false, "", Count, 0.02, false},
		{"alloc-bytes", "allocated by the server per result", "B", false, "", Count, 0.02, false},
		{"wire-bytes", "received from agents per result", "B", false, "", Count, 0.01, false},
		{"journal-bytes", "written by the journal per result", "B", false, "", Count, 0.01, false},
		{"disk-bytes", "written to disk per result, whole pages", "B", false, "", Count, 0.05, false},
		{"fsyncs", "fsyncs of the journal", Per1000, false, "", Count, 0.05, false},
		{"reads", "read calls of the server", Per1000, false, "", Count, 0.05, false},
		{"writes", "write calls of the server", Per1000, false, "", Count, 0.05, false},
		{"agent-memory", "resident on the server per agent", "kB", false, "", Count, 0.1, false},
		{"loader-memory", "resident on the loader per agent", "kB", false, "", Count, 0.1, false},
		{"state-memory", "resident per event state", "B", false, "", Count, 0.1, false},
		{"server-memory", "resident on the server at the end", "MB", false, "", Count, 0.1, false},
		{"connect", "until every agent had a session", "s", false, "", Absolute, 0.05, false},
		{"settle", "until it was steady again", "s", false, "settle", Absolute, 0.05, false},
		{"detect", "from a fault to its last alert", "s", false, "faults", Absolute, 0.05, true},
		{"clear", "from a fault's end to its last resolution", "s", false, "faults", Absolute, 0.05, true},
		{"back", "until all agents were back", "s", false, "outage", Absolute, 0.05, true},
		{"back-serving", "from serving until all agents were back", "s", false, "restart", Absolute, 0.05, true},
		{"serving", "until the server was ready again", "s", false, "restart", Absolute, 0.05, true},
		{"acknowledging", "until it acknowledged again", "s", false, "outage", Absolute, 0.05, true},
		{"takeover-p50", "p50 until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1, false},
		{"takeover-p99", "p99 until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1, false},
		{"takeover-max", "longest until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1, false},
		{"holds-p99", "p99 until an agent held what was changed", "ms", false, "intent", Absolute, 0.05, true},
		{"list-p99", "p99 of a page, for people who list", "ms", false, "lists", Absolute, 0.05, true},
		{"apply-p99", "p99 of a resource written", "ms", false, "applies", Absolute, 0.05, true},
		{"silence-p99", "p99 of a silence made", "ms", false, "silences", Absolute, 0.05, true},
		{"watch-p99", "p99 from a change until those who watch saw it", "ms", false, "watches", Absolute, 0.05, true},
		{"run-p99", "p99 of a command run at once, until its answer was here", "ms", false, "runs", Absolute, 0.05, false},
		{"fact-p99", "p99 until the server showed a fact that changed", "ms", false, "facts", Absolute, 0.05, false},
		{"tell-p99", "p99 from a result's being sent until the message was here", "ms", false, "alerts", Absolute, 0.05, false},
		{"stream-p99", "p99 from a result's being sent until its line was here", "ms", false, "stream", Absolute, 0.05, false},
		{"history-behind", "oldest change that history did not hold yet", "s", false, "", Absolute, 0.1, true},
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
