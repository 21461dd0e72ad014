// Package scenario is the file that says what a load run does: who sends what, when,
// what goes wrong meanwhile, and what must be reached. It is read, checked and scaled
// here; internal/load plays it. docs/load-reference.md is its manual.
//
// A Scenario is data: the same file with the same seed is the same plan, whatever the
// machine. Nothing here opens a connection or reads a clock.
//
// Start at Load in read.go, then check.go; scale.go makes it fit a machine, describe.go
// says it in words.
package scenario

import (
	"github.com/muster-fleet/muster/internal/model"
)

// Version is what a scenario file begins with: `scenario: muster.load/v1`.
const Version = "muster.load/v1"

// Scenario is one file.
type Scenario struct {
	Scenario string   `json:"scenario"`          // Version
	Name     string   `json:"name,omitempty"`    // the file's name without .yaml
	Title    string   `json:"title,omitempty"`   // one line, for lists and the head of the report
	Answers  string   `json:"answers,omitempty"` // the published figure that this shape answers, and where it is published
	Needs    []string `json:"needs,omitempty"`   // capabilities that no field below shows, see Capabilities
	Target   string   `json:"target,omitempty"`  // muster (default), or another system by its name
	Seed     uint64   `json:"seed,omitempty"`    // same seed, same plan

	Server     Server           `json:"server,omitzero"` // the server that the run starts
	Agents     []Class          `json:"agents"`
	Checks     []GroupCheck     `json:"checks,omitempty"`  // for groups, beside those of the classes
	Proxies    []Proxies        `json:"proxies,omitempty"` // things without an agent, which checks are about
	Phases     []Phase          `json:"phases"`
	Faults     []Fault          `json:"faults,omitempty"`
	Intent     []Change         `json:"intent,omitempty"`     // what people change meanwhile
	Operators  Operators        `json:"operators,omitzero"`   // people who look and act meanwhile
	Stream     *Stream          `json:"stream,omitempty"`     // a handler that is notified of every result, with the loader as its peer; nil: none
	Objectives map[string]Limit `json:"objectives,omitempty"` // by the name of a figure; loss is always 0

	Scale float64 `json:"scale,omitempty"` // that the number of agents had been brought to already; 0 and 1: whole. Set by Scaled, else shown in every title
}

// Server is how the server that the run starts is held short.
type Server struct {
	Cores int      `json:"cores,omitempty"` // how many it may use at once (GOMAXPROCS); 0: all of the machine
	Flags []string `json:"flags,omitempty"` // of muster server, such as --series-range=5m; those of --server-flag come behind them
}

// Stream is a handler with stream.results: all, whose lines the loader takes and holds against
// the results.
type Stream struct {
	Connections int `json:"connections"` // that it keeps open, 1 to 256
}

// Class is agents of one kind. They are the nodes NAME-00000 and up, with the label
// class=NAME, and the group NAME.
type Class struct {
	Name      string            `json:"name"`
	Count     int               `json:"count"`
	Groups    []string          `json:"groups,omitempty"` // that its nodes are in, beside that of its own name
	Labels    map[string]string `json:"labels,omitempty"`
	TLS       bool              `json:"tls,omitempty"`       // mutual TLS; without: the plain listener, on loopback
	Linger    model.Duration    `json:"linger,omitempty"`    // how long a result may wait for company; default 500ms
	PerFrame  int               `json:"perFrame,omitempty"`  // results that fill a frame; 0: only the linger does
	Share     int               `json:"share,omitempty"`     // agents that share one connection, needs shared-connections; 0 and 1: each its own
	Inventory model.Size        `json:"inventory,omitempty"` // of each machine; needs inventories
	Checks    []Check           `json:"checks,omitempty"`
	Recorded  *Recorded         `json:"recorded,omitempty"`  // instead of checks: a recorded stream
	Values    []Values          `json:"values,omitempty"`    // needs values
	Policies  []Policy          `json:"policies,omitempty"`  // needs policies
	Keepalive *model.Keepalive  `json:"keepalive,omitempty"` // of its nodes; default as every node's: every 20s, missed after 120s
	Churn     Churn             `json:"churn,omitzero"`
}

// Check is one check, or so many alike: NAME-000 and up.
type Check struct {
	Name     string             `json:"name"`
	Count    int                `json:"count,omitempty"` // default 1
	Interval model.Duration     `json:"interval"`
	TTL      model.Duration     `json:"ttl,omitempty"`
	Output   Output             `json:"output,omitzero"`
	Status   map[string]float64 `json:"status,omitempty"`   // share of each status, by its name; the rest is OK
	Changes  float64            `json:"changes,omitempty"`  // share of results that change the status, to another of Status, or without that to any; they leave at once
	Flapping float64            `json:"flapping,omitempty"` // share of the states that change with every result
	Alert    string             `json:"alert,omitempty"`    // a webhook of the loader's is notified of its problems: by a handler (ByHandler), or by a route (ByRoute)

	Proxy      *About         `json:"proxy,omitempty"`      // it is about proxy nodes: each agent runs it for each of them …
	RoundRobin bool           `json:"roundRobin,omitempty"` // … or one agent in turn, when the server says so
	Timeout    model.Duration `json:"timeout,omitempty"`    // with RoundRobin: of a run; the server waits longer than that before another agent has the turn
}

// Output is what results say.
type Output struct {
	Like  string     `json:"like,omitempty"`  // a plug-in whose words are used (see Outputs); default digits, all different
	Bytes model.Size `json:"bytes,omitempty"` // length of each; default what the plug-in says, digits 100 B
}

// Values are items of a class; needs values.
type Values struct {
	Name     string         `json:"name"`
	Count    int            `json:"count,omitempty"` // default 1
	Interval model.Duration `json:"interval"`
	Type     string         `json:"type,omitempty"` // float (default), integer, text
	// A trigger on every so many of them; zero: none.
	TriggerEvery int `json:"triggerEvery,omitempty"`
	// A step of JavaScript on every so many of them; zero: none.
	ScriptEvery int `json:"scriptEvery,omitempty"`
	// Items that the server makes of each by JSONPath: the value is a JSON text of 1 kB. Zero: none.
	Dependents int `json:"dependents,omitempty"`
}

// Policy is policy runs of a class; needs policies.
type Policy struct {
	Name       string             `json:"name"`
	Components int                `json:"components"`
	Interval   model.Duration     `json:"interval"`
	Outcome    map[string]float64 `json:"outcome,omitempty"` // share of the components, by outcome; the rest is compliant
}

// Churn is how the machines of a class come and go, each as a rate of the whole class.
type Churn struct {
	Reconnects Rate           `json:"reconnects,omitempty"` // connections cut, opened again at once
	Restarts   Rate           `json:"restarts,omitempty"`   // machines that boot: new session, new boot id
	Renames    Rate           `json:"renames,omitempty"`    // nodes that get another name, or theirs again
	Offline    Rate           `json:"offline,omitempty"`    // machines that lose the network …
	OfflineFor model.Duration `json:"offlineFor,omitempty"` // … for so long, and then send what they spooled
}

// Phase is a stretch of time. Exactly one of the first six says how long it is and what
// happens in it; they follow each other in the order of the file.
type Phase struct {
	Name   string         `json:"name,omitempty"`   // for the report; default what it is
	Ramp   model.Duration `json:"ramp,omitempty"`   // agents connect evenly over this time
	Steady model.Duration `json:"steady,omitempty"` // everything flows; measured
	Step   model.Duration `json:"step,omitempty"`   // steady stretches of this length at growing rates, until an objective or the machine breaks; measured
	Soak   model.Duration `json:"soak,omitempty"`   // as steady, judged for drift too; measured
	Fault  model.Duration `json:"fault,omitempty"`  // as steady, while its faults strike: measured by itself, no part of the run's figures
	Drain  model.Duration `json:"drain,omitempty"`  // nothing new; at most this long until all is acknowledged

	Rate   float64            `json:"rate,omitempty"`   // of the scenario's own rate; default 1. Step: the first one
	Faster map[string]float64 `json:"faster,omitempty"` // steady, soak: pipelines that run so many times as fast, by their names (see Pipelines)
	Of     string             `json:"of,omitempty"`     // steady, soak: saturation makes rate a multiple of the last step that held in the steps before it
	By     float64            `json:"by,omitempty"`     // step: added each time; default 0.1
	Grow   float64            `json:"grow,omitempty"`   // step: in place of By, share by which each is more than the one before
	To     float64            `json:"to,omitempty"`     // step: the last one; default 10
	Settle model.Duration     `json:"settle,omitempty"` // steady: within this long latency and queues must be as before the phase before it ("overload and return")
	Warmup model.Duration     `json:"warmup,omitempty"` // steady: so much of its beginning is not measured

	Faults     []Fault          `json:"faults,omitempty"`     // their times count from its beginning; Defaults moves them to the scenario's
	Objectives map[string]Limit `json:"objectives,omitempty"` // of this phase alone
}

// Fault is something that goes wrong, at a time since the measurement began: since the
// first measured phase, after its warm-up. Exactly one of the fields below For says what.
type Fault struct {
	At  model.Duration `json:"at"`
	For model.Duration `json:"for,omitempty"` // how long; 0: until the end, or the next fault that undoes it

	Stop   *Pick      `json:"stop,omitempty"`   // machines that die without a word: detected in time?
	Hang   *Pick      `json:"hang,omitempty"`   // agents that keep their sessions and run nothing: who takes their turns?
	Cut    *Pick      `json:"cut,omitempty"`    // connections cut at once; their agents come back by themselves
	Fail   *FailCheck `json:"fail,omitempty"`   // checks that fail: one alert each, and one recovery
	Wrong  *Pick      `json:"wrong,omitempty"`  // agents that send frames which must be refused
	Server string     `json:"server,omitempty"` // restart, kill (SIGKILL, then started again), stop (SIGSTOP, then SIGCONT); needs a server of the run's own
	Run    string     `json:"run,omitempty"`    // a shell command of the loader's machine
}

// Pick is which agents something happens to: chosen by the seed.
type Pick struct {
	Class  string  `json:"class,omitempty"`  // of this class …
	Group  string  `json:"group,omitempty"`  // … or of this group; neither: of all
	Count  int     `json:"count,omitempty"`  // so many …
	Share  float64 `json:"share,omitempty"`  // … or this share; neither: all
	Within string  `json:"within,omitempty"` // only those with the same value of this label: a rack, a site
}

// FailCheck is checks that fail on some agents.
type FailCheck struct {
	Pick
	Check  string `json:"check"`            // its name in the class, or NAME-007 for one of many
	Status string `json:"status,omitempty"` // default CRITICAL
}

// Change is what people change while results flow, at a time since the
// measurement began. Until every agent concerned holds it is measured.
type Change struct {
	At     model.Duration `json:"at"`
	Every  model.Duration `json:"every,omitempty"` // again and again
	Create int            `json:"create,omitempty"`
	Change int            `json:"change,omitempty"`
	Delete int            `json:"delete,omitempty"`
	Kind   string         `json:"kind"`            // check or group
	Class  string         `json:"class,omitempty"` // whose agents hold it …
	Group  string         `json:"group,omitempty"` // … or of which group; neither: all
}

// Operators are people at work through the API. Their requests are meant at times of their
// own, whenever answers come; rates are of all of them.
type Operators struct {
	Lists    int  `json:"lists,omitempty"`    // people who page through events, one request after the other …
	Pause    Rate `json:"pages,omitempty"`    // … at this rate each; default one every 2 s
	Watches  int  `json:"watches,omitempty"`  // streams of changes held open
	Applies  Rate `json:"applies,omitempty"`  // resources written
	Runs     Rate `json:"runs,omitempty"`     // commands run at once on one machine each, which answers
	Facts    Rate `json:"facts,omitempty"`    // machines that say that something about them is otherwise
	Silences Rate `json:"silences,omitempty"` // of one machine each, for 10 minutes
}
