package report

import (
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Schema is the version of run.json: fields are added, never changed.
const Schema = "muster.load/1"

// Report is the report of one run; run.json is its JSON form.
type Report struct {
	Schema  string    `json:"schema"`
	Title   string    `json:"title,omitempty"`
	Began   time.Time `json:"began"`
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Dirty   bool      `json:"dirty,omitempty"` // built with changes that are not in the commit
	Command []string  `json:"command"`
	Machine Machine   `json:"machine"`
	Plan    Plan      `json:"plan"`

	Valid   bool     `json:"valid"` // the generator kept up
	Verdict []string `json:"verdict"`
	Stopped *Stopped `json:"stopped,omitempty"` // nil: it was played to its end
	Balance *Balance `json:"balance"`
	Goals   []Goal   `json:"goals,omitempty"`
	Trouble []string `json:"trouble,omitempty"` // failures of the server, of faults and of people that no other field has, in sentences

	Scenario    *scenario.Scenario `json:"scenario,omitempty"` // as it was played
	Environment *Environment       `json:"environment,omitempty"`
	Files       map[string]string  `json:"files,omitempty"` // beside run.json: what they hold, by name
	Label       []string           `json:"label,omitempty"` // what must be said wherever its figures are shown: a scale, shared connections, an amplified stream

	Span // of all that count: see Counting
	Traffic
	Cost
	Course
	Samples []Sample `json:"samples"`
}

// Span has the figures of some phases: of the results that were due in them, and of their use of the machine.
type Span struct {
	InTime       *float64 `json:"inTime,omitempty"`    // the share of what was offered that was acknowledged within a second beyond its linger, 0 to 1
	SpoolFull    uint64   `json:"spoolFull,omitempty"` // results not made: their agent's spool was full
	Latency      Latency  `json:"latencyMs"`           // intended → acknowledged
	BeyondLinger Latency  `json:"beyondLingerMs"`      // due to leave → acknowledged
	Lag          Latency  `json:"generatorLagMs"`      // due to leave → handed over to be sent
	Server       Usage    `json:"server"`
	Loader       Usage    `json:"loader"` // of several: all together
}

// Traffic has the results of a run: their numbers and rates over the measured span.
type Traffic struct {
	Results    uint64            `json:"results"` // measured
	Rate       float64           `json:"rate"`    // acknowledged per second, by the clock
	Frames     uint64            `json:"frames"`
	Resent     uint64            `json:"resent"`             // after a reconnect
	Repeated   uint64            `json:"repeated,omitempty"` // acknowledged before, and sent again on purpose: the server must take none twice
	Refusals   map[string]uint64 `json:"refusals,omitempty"`
	WrongSent  uint64            `json:"wrongSent,omitempty"`  // results that had to be refused: faults of the kind wrong sent them …
	WrongTaken uint64            `json:"wrongTaken,omitempty"` // … and those of them that were acknowledged
	Slowed     int               `json:"slowed"`               // times that an agent was asked to slow down; asked again while it is slow, it is not counted
	Curve      []Point           `json:"curve,omitempty"`      // of Latency
	Batch      Spread            `json:"signalsPerFrame"`
	Failures   map[string]uint64 `json:"failures,omitempty"` // connections not opened
	Losses     map[string]uint64 `json:"losses,omitempty"`   // sessions ended
}

// Cost has the use of processors, memory, disk and network by server and loaders.
type Cost struct {
	ConnectSeconds float64  `json:"connectSeconds"`            // until every agent had a session
	ReadySeconds   float64  `json:"readySeconds"`              // … and its checks
	Loaders        []Loader `json:"loaders,omitempty"`         // where several played the run
	Others         float64  `json:"othersCores"`               // what everybody else on the machine used
	ConnectCPU     float64  `json:"connectCpuSeconds"`         // of the server, until all agents held their checks
	SessionBytes   float64  `json:"sessionBytes"`              // resident on the server per agent: sessions and assignments, before any result
	AgentBytes     float64  `json:"agentBytes"`                // resident on the loader per agent: all that it took since before there was the first one, likewise without any result
	Goroutines     float64  `json:"agentGoroutines,omitempty"` // of the loader per agent, as AgentBytes
	StateBytes     float64  `json:"stateBytes,omitempty"`      // resident on the server per event state, see States
	States         uint64   `json:"states,omitempty"`          // event states at the end
	Calls          *Calls   `json:"calls,omitempty"`           // of the server to the system
	Disk           *Disk    `json:"disk,omitempty"`            // what the server wrote
	Network        *Network `json:"network,omitempty"`         // of the server with its agents
	Inside         *Inside  `json:"inside,omitempty"`          // what was read from within the server

	Metrics map[string]float64 `json:"metrics,omitempty"` // counters of the server over the measured span, by name
}

// Course has the phases of a run, its faults, and the deliveries, turns, changes and requests beside its results.
type Course struct {
	Phases        []Played       `json:"phases,omitempty"`
	Faults        []Struck       `json:"faults,omitempty"`
	Outages       []Outage       `json:"outages,omitempty"`
	Silent        *Silent        `json:"silent,omitempty"`        // nil: not judged, as without a login
	Notifications *Notifications `json:"notifications,omitempty"` // nil: the scenario asks for no notifications, or there was no login
	Streamed      *Streamed      `json:"streamed,omitempty"`      // nil: no handler is notified of every result
	Turns         *Turned        `json:"turns,omitempty"`         // of checks with roundRobin; nil: there are none
	Changes       []Held         `json:"intent,omitempty"`
	Operators     []Worked       `json:"operators,omitempty"`
	Targeted      *Targeted      `json:"targeted,omitempty"` // a system that is not Muster; nil: it is
	Signals       *Signals       `json:"signals,omitempty"`  // of a run of values or directives; nil: it is of checks
}

// Machine describes the machine of the run.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Load   string `json:"load"` // averages over 1, 5 and 15 minutes before the run: was it alone?
}

// Plan is the configuration that matters, with defaults filled in.
type Plan struct {
	Agents   int     `json:"agents"`
	Checks   int     `json:"checks"`
	Interval float64 `json:"intervalSeconds"`
	Offered  float64 `json:"offeredPerSecond"`
	PerFrame int     `json:"perFrame"`
	Linger   float64 `json:"lingerMs"`
	Output   int     `json:"outputBytes"`
	Duration float64 `json:"seconds"`
	TLS      bool    `json:"tls"`
	Seed     uint64  `json:"seed"`
	MaxLag   float64 `json:"maxLagMs,omitempty"` // of the generator, p99, beyond which the run is invalid
	Digest   string  `json:"digest,omitempty"`   // of who sends what when, whom faults strike, who comes and goes: what the seed came to
}

// Latency holds percentiles of a latency, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Spread holds the range of a count.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	Max  int64   `json:"max"`
}

// Usage holds the use of a process in the measured span.
type Usage struct {
	Cores         float64 `json:"cores"`
	MicrosPerItem float64 `json:"cpuMicrosPerResult"`
	RSS           int64   `json:"rss"`                      // at the end, bytes
	Elsewhere     float64 `json:"elsewhereCores,omitempty"` // of Cores, on other machines than the first loader's
	LockShare     float64 `json:"lockShare,omitempty"`      // time that goroutines waited for locks, of the span × GOMAXPROCS; of several loaders, the first one's. Zero: not known
}

// Loader is one of the processes that played a run together. The first one leads.
type Loader struct {
	Name       string  `json:"name"` // of its machine
	Here       bool    `json:"here"` // on the first one's machine, which Report.Machine describes
	Agents     int     `json:"agents"`
	Results    uint64  `json:"results"` // measured
	Lag        Latency `json:"generatorLagMs"`
	Usage      Usage   `json:"usage"`
	AgentBytes float64 `json:"agentBytes"`
	Clock      float64 `json:"clockMs"` // how far its clock may be off the first one's
}

// where returns the name of the loader's machine, for people.
func (l *Loader) where() string {
	if l.Here {
		return l.Name
	}
	return l.Name + " (another machine)"
}

// AddFile adds a file of the run's folder with a description.
func (rep *Report) AddFile(name, description string) {
	if rep.Files == nil {
		rep.Files = map[string]string{}
	}
	rep.Files[name] = description
}
