package observe

// RoundRobin holds the runs of round-robin checks. Times are ns since the start of the timetable.
type RoundRobin struct {
	From   int64     `json:"from"` // of what is measured
	End    int64     `json:"end"`  // of the timetable
	Rounds []Round   `json:"rounds"`
	Away   []Stay    `json:"away,omitempty"` // intervals without a server, because of a fault
	Took   Histogram `json:"took,omitzero"`  // until another agent had a run
}

// Round holds the runs of one check about one node, by interval.
type Round struct {
	Name     string        `json:"name"`
	Class    int           `json:"class"` // of the agents
	Interval int64         `json:"interval"`
	Patience int64         `json:"patience"` // until the server gives a run to another agent
	First    int64         `json:"first"`    // start of the first interval
	Marks    []byte        `json:"marks,omitempty"`
	Stuck    map[int]Stuck `json:"stuck,omitempty"` // by interval
	Again    []Again       `json:"again,omitempty"`
}

// Lull is the least time in ns between the start of the last judged interval and the end of the run, so that its result
// surely came.
const Lull = int64(1e9)

// A mark of an interval has the number of its runs, and whether an agent was given one that it could run.
const (
	Given    = 1 << 7
	RunsMost = Given - 1
)

// Stuck is an interval whose run the server gave to struck agents.
type Stuck struct {
	Since int64 `json:"since"`
	Times int64 `json:"times"`
}

// Again is a run that the server gave to an agent while another one had it and had time left, or had finished it.
type Again struct {
	First  int   `json:"first"` // member of the fleet that had it
	By     int   `json:"by"`    // member that was given it again
	Since  int64 `json:"since"` // when it was given first
	Before int64 `json:"before"`
	At     int64 `json:"at"`
}
