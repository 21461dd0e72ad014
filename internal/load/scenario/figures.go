package scenario

// Figure is a measured figure: objectives limit it, comparisons of runs compare it. internal/load/report has its value.
type Figure struct {
	Name  string  `json:"name"`
	What  string  `json:"what"`
	Unit  string  `json:"unit"`            // of its limit, once written without
	Least bool    `json:"least,omitempty"` // the limit is a minimum: more is better
	Needs string  `json:"needs,omitempty"` // its cause in a scenario, see missingCause; empty: every run has it
	Kind  Kind    `json:"kind"`
	Grain float64 `json:"grain"` // the smallest change worth a word, as a share: 0.01
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
		{"rate", "acknowledged", "results/s", true, "", Absolute, 0.02},
		{"held", "acknowledged in time, of what was offered", "%", true, "", Relative, 0.01},
		{"saturation", "acknowledged in the last step that held", "results/s", true, "step", Absolute, 0.05},
		{"p50", "p50 from intended to acknowledged", "ms", false, "", Absolute, 0.05},
		{"p99", "p99 from intended to acknowledged", "ms", false, "", Absolute, 0.05},
		{"p999", "p99.9 from intended to acknowledged", "ms", false, "", Absolute, 0.1},
		{"max", "slowest from intended to acknowledged", "ms", false, "", Absolute, 0.1},
		{"beyond-p50", "p50 beyond the linger", "ms", false, "", Absolute, 0.05},
		{"beyond-p99", "p99 beyond the linger", "ms", false, "", Absolute, 0.05},
		{"machine", "both processes, of the machine", "%", false, "", Absolute, 0.05},
		{"server-cpu", "server CPU per result", "µs", false, "", Absolute, 0.05},
		{"loader-cpu", "loader CPU per result", "µs", false, "", Absolute, 0.05},
		{"cpu-ratio", "server CPU, of the loader's", "%", false, "", Relative, 0.05},
		{"gc-cpu", "CPU of the server's garbage collector per result", "µs", false, "", Absolute, 0.1},
		{"lock-share", "time that goroutines of the server waited for locks, of its processors'", "%", false, "", Absolute, 0.1},
		{"allocs", "allocations of the server", Per1000, false, "", Count, 0.02},
		{"alloc-bytes", "allocated by the server per result", "B", false, "", Count, 0.02},
		{"wire-bytes", "received from agents per result", "B", false, "", Count, 0.01},
		{"journal-bytes", "written by the journal per result", "B", false, "", Count, 0.01},
		{"disk-bytes", "written to disk per result, whole pages", "B", false, "", Count, 0.05},
		{"fsyncs", "fsyncs of the journal", Per1000, false, "", Count, 0.05},
		{"reads", "read calls of the server", Per1000, false, "", Count, 0.05},
		{"writes", "write calls of the server", Per1000, false, "", Count, 0.05},
		{"agent-memory", "resident on the server per agent", "kB", false, "", Count, 0.1},
		{"loader-memory", "resident on the loader per agent", "kB", false, "", Count, 0.1},
		{"state-memory", "resident per event state", "B", false, "", Count, 0.1},
		{"server-memory", "resident on the server at the end", "MB", false, "", Count, 0.1},
		{"connect", "until every agent had a session", "s", false, "", Absolute, 0.05},
		{"settle", "until it was steady again", "s", false, "settle", Absolute, 0.05},
		{"detect", "from a fault to its last alert", "s", false, "faults", Absolute, 0.05},
		{"clear", "from a fault's end to its last resolution", "s", false, "faults", Absolute, 0.05},
		{"back", "until all agents were back", "s", false, "outage", Absolute, 0.05},
		{"back-serving", "from serving until all agents were back", "s", false, "restart", Absolute, 0.05},
		{"serving", "until the server was ready again", "s", false, "restart", Absolute, 0.05},
		{"acknowledging", "until it acknowledged again", "s", false, "outage", Absolute, 0.05},
		{"takeover-p50", "p50 until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1},
		{"takeover-p99", "p99 until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1},
		{"takeover-max", "longest until another had the turn of an agent that did not answer", "ms", false, "turns", Absolute, 0.1},
		{"holds-p99", "p99 until an agent held what was changed", "ms", false, "intent", Absolute, 0.05},
		{"list-p99", "p99 of a page, for people who list", "ms", false, "lists", Absolute, 0.05},
		{"apply-p99", "p99 of a resource written", "ms", false, "applies", Absolute, 0.05},
		{"silence-p99", "p99 of a silence made", "ms", false, "silences", Absolute, 0.05},
		{"watch-p99", "p99 from a change until those who watch saw it", "ms", false, "watches", Absolute, 0.05},
		{"run-p99", "p99 of a command run at once, until its answer was here", "ms", false, "runs", Absolute, 0.05},
		{"fact-p99", "p99 until the server showed a fact that changed", "ms", false, "facts", Absolute, 0.05},
		{"tell-p99", "p99 from a result's being sent until the message was here", "ms", false, "alerts", Absolute, 0.05},
		{"stream-p99", "p99 from a result's being sent until its line was here", "ms", false, "stream", Absolute, 0.05},
		{"history-behind", "oldest change that history did not hold yet", "s", false, "", Absolute, 0.1},
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
