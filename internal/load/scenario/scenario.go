// Package scenario reads, checks and scales the files of load runs: which agents send what and when, which faults strike,
// and which objectives hold. internal/load plays a scenario. docs/load-reference.md is the manual.
//
// A Scenario is data: the same file with the same seed is the same plan on every machine. The package opens no
// connection and reads no clock.
//
// Each field has its rule in the tag check, see rules.go; check.go has the rules about several fields. Start at Load in
// read.go. scale.go fits a scenario to a machine, describe.go describes it.
package scenario

import "github.com/muster-fleet/muster/internal/model"

// Version is the format of the file, its first field.
const Version = "muster.load/v1"

// Scenario is one file.
type Scenario struct {
	Scenario string   `json:"scenario"`                             // Version
	Name     string   `json:"name,omitempty" check:"name"`          // the file's name without .yaml
	Title    string   `json:"title,omitempty" check:"text"`         // one line, for lists and the head of the report
	Answers  string   `json:"answers,omitempty" check:"text"`       // the published figure that this shape answers, with its source
	Needs    []string `json:"needs,omitempty" check:"a capability"` // capabilities that no field shows, see Capabilities
	Target   string   `json:"target,omitempty" check:"a target"`    // muster (default) or sensu
	Seed     uint64   `json:"seed,omitempty"`                       // same seed, same plan

	Server     Server           `json:"server,omitzero"` // the server that the run starts
	Agents     []Class          `json:"agents"`
	Checks     []GroupCheck     `json:"checks,omitempty"`  // of groups, beside those of the classes
	Proxies    []Proxies        `json:"proxies,omitempty"` // nodes without an agent
	Phases     []Phase          `json:"phases"`
	Faults     []Fault          `json:"faults,omitempty"`
	Intent     []Change         `json:"intent,omitempty"`     // changes of intent during the run
	Operators  Operators        `json:"operators,omitzero"`   // API users during the run
	Stream     *Stream          `json:"stream,omitempty"`     // a handler with stream.results: all, with the loader as its peer; nil: none
	Objectives map[string]Limit `json:"objectives,omitempty"` // by the name of a figure; loss is always 0

	Scale float64 `json:"scale,omitempty" check:"0..1000|leave it out: --scale and --quick set it"` // part of the agents; 0 and 1: all. Scaled sets it, titles show it
}

// Server has the settings of the server that the run starts.
type Server struct {
	Cores int      `json:"cores,omitempty" check:"1..1024|leave it out for all that the machine has"` // GOMAXPROCS; 0: all cores
	Flags []string `json:"flags,omitempty"`                                                           // of muster server, such as --series-range=5m; those of --server-flag follow them
}

// Stream is a handler with stream.results: all. The loader reads its lines and compares them with the results.
type Stream struct {
	Connections int `json:"connections" check:"1..connections|write stream: {connections: 100}, or leave stream out|required"` // that stay open
}

// Class is agents of one kind: the nodes NAME-00000 and up, with the label class=NAME, in the group NAME.
type Class struct {
	Name      string            `json:"name" check:"name|required"`
	Count     int               `json:"count" check:"1..agents"`
	Groups    []string          `json:"groups,omitempty" check:"name"` // beside the group NAME and all
	Labels    map[string]string `json:"labels,omitempty"`
	TLS       bool              `json:"tls,omitempty"`                         // mutual TLS; without: the plain listener, on loopback
	Linger    model.Duration    `json:"linger,omitempty" check:"1ms..1m"`      // longest time that a result waits for others; default 500ms
	PerFrame  int               `json:"perFrame,omitempty" check:"1..signals"` // results that fill a frame; 0: a frame leaves when its linger is over
	Inventory model.Size        `json:"inventory,omitempty"`                   // bytes of the entries of each machine, with policies
	Checks    []Check           `json:"checks,omitempty"`
	Recorded  *Recorded         `json:"recorded,omitempty"` // a recorded stream in place of checks
	Values    []Values          `json:"values,omitempty"`
	Policies  []Policy          `json:"policies,omitempty"`
	Keepalive *model.Keepalive  `json:"keepalive,omitempty"` // of its nodes; default as every node's: every 20s, missed after 120s
	Churn     Churn             `json:"churn,omitzero"`
}

// Check is one check, or several equal checks: NAME-000 and up.
type Check struct {
	Name     string             `json:"name" check:"name|required"`
	Count    int                `json:"count,omitempty" check:"1..states|leave count out for one check, or leave out the check|nonzero"` // default 1
	Interval model.Duration     `json:"interval" check:"1s..366d|write interval: 60s|required"`
	TTL      model.Duration     `json:"ttl,omitempty" check:"1s..366d"`
	Output   Output             `json:"output,omitzero"`
	Status   map[string]float64 `json:"status,omitempty" check:"a status|shares OK"`              // share of each status, by its name; the rest is OK
	Changes  float64            `json:"changes,omitempty" check:"share"`                          // share of results that change the status, to another of Status, or without that to any; they leave at once
	Flapping float64            `json:"flapping,omitempty" check:"share"`                         // share of the states that change with every result
	Alert    string             `json:"alert,omitempty" check:"a notification of handler, route"` // how the loader's webhook is notified of its problems: ByHandler or ByRoute

	Proxy      *About         `json:"proxy,omitempty"`      // each agent runs the check for each of these proxy nodes …
	RoundRobin bool           `json:"roundRobin,omitempty"` // … or one agent in turn, when the server requests it
	Timeout    model.Duration `json:"timeout,omitempty"`    // with RoundRobin: of a run; the server waits longer before it requests the run from another agent
}

// Output is the output of results.
type Output struct {
	Like  string     `json:"like,omitempty" check:"a plug-in"`                                                                        // the plug-in whose texts are used, see Outputs; default digits, all different
	Bytes model.Size `json:"bytes,omitempty" check:"48..1000KiB|a frame has no room for longer ones, and shorter ones are all equal"` // default: length of the plug-in's text, 100 B of digits
}

// MaxOutput is the longest output in bytes that a frame has room for.
const MaxOutput = 1000 << 10

// Values are items of a class.
type Values struct {
	Name         string         `json:"name" check:"name|required"`
	Count        int            `json:"count,omitempty" check:"1..agents|leave count out for one value, or leave out the value|nonzero"` // default 1
	Interval     model.Duration `json:"interval" check:"100ms..366d|write interval: 60s|required"`
	Type         string         `json:"type,omitempty" check:"a type of float, integer, text"` // default float
	TriggerEvery int            `json:"triggerEvery,omitempty" check:"1..agents"`              // every n-th has a trigger; zero: none
	ScriptEvery  int            `json:"scriptEvery,omitempty" check:"1..agents"`               // every n-th has a step of JavaScript; zero: none
	Dependents   int            `json:"dependents,omitempty" check:"1..1000"`                  // items that the server makes of each by JSONPath: the value is a JSON text of 1 kB
}

// Policy is directives of a class, with the policies that put them on its nodes.
type Policy struct {
	Name       string         `json:"name" check:"name|required"`
	Components int            `json:"components" check:"1..10000|write how many|required"`     // of a node, on average
	Directives int            `json:"directives,omitempty" check:"1..1000"`                    // default 1
	Policies   int            `json:"policies,omitempty" check:"1..1000"`                      // default 1; a quarter of them, at least one, targets all nodes …
	Groups     int            `json:"groups,omitempty" check:"1..1000"`                        // … and each of the others two of these groups, or all nodes if there are none
	Interval   model.Duration `json:"interval" check:"10s..366d|write interval: 60s|required"` // of each directive
	Failing    float64        `json:"failing,omitempty" check:"share"`                         // share of the components that are not compliant
	Changes    float64        `json:"changes,omitempty" check:"share"`                         // share of the runs that differ from the run before
}

// Churn is how the machines of a class come and go, each as a rate of the whole class.
type Churn struct {
	Reconnects Rate           `json:"reconnects,omitempty"`                  // connections cut, opened again at once
	Restarts   Rate           `json:"restarts,omitempty"`                    // machines that boot: new session, new boot id
	Renames    Rate           `json:"renames,omitempty"`                     // nodes that get another name, or their first one again
	Offline    Rate           `json:"offline,omitempty"`                     // machines that lose the network …
	OfflineFor model.Duration `json:"offlineFor,omitempty" check:"1s..366d"` // … for so long, and then send their spool
}

// Phase is a part of the run. Exactly one of the first five durations says its length and its kind; phases follow each
// other in the order of the file. The tag of names the kinds that a field belongs to.
type Phase struct {
	Name   string         `json:"name,omitempty"`                       // for the report; default its kind
	Ramp   model.Duration `json:"ramp,omitempty" check:"100ms..366d"`   // agents connect evenly over this time
	Steady model.Duration `json:"steady,omitempty" check:"100ms..366d"` // everything flows; measured
	Step   model.Duration `json:"step,omitempty" check:"100ms..366d"`   // steady parts of this length at growing rates, until an objective or the machine breaks; measured
	Fault  model.Duration `json:"fault,omitempty" check:"100ms..366d"`  // as steady, while its faults strike: measured by itself, no part of the run's figures
	Drain  model.Duration `json:"drain,omitempty" check:"100ms..366d"`  // nothing new; at most this long until all is acknowledged

	Rate   float64            `json:"rate,omitempty" of:"steady step fault" check:"0.001..1000|1.2 is 120 % of the scenario's own rate"` // of the scenario's own; default 1. Step: the first one
	Faster map[string]float64 `json:"faster,omitempty" of:"steady" check:"a pipeline"`                                                   // pipelines that run so many times as fast, by their names (see Pipelines)
	Of     string             `json:"of,omitempty" of:"steady" check:"a base of saturation"`                                             // saturation: rate is a multiple of the last step that held in the steps before it
	By     float64            `json:"by,omitempty" of:"step" check:"0.001..1000"`                                                        // added each time; default 0.1
	Grow   float64            `json:"grow,omitempty" of:"step" check:"0.01..1000|0.15 is 15 % more with every step"`                     // in place of By: share by which each is more than the one before
	To     float64            `json:"to,omitempty" of:"step" check:"0.001..1000"`                                                        // the last one; default 10
	Settle model.Duration     `json:"settle,omitempty" of:"steady"`                                                                      // within this time latency and queues must be as before the phase before it
	Warmup model.Duration     `json:"warmup,omitempty" of:"steady"`                                                                      // its first part, which is not measured

	Faults     []Fault          `json:"faults,omitempty" of:"fault steady"`     // their times count from its beginning; Defaults moves them to the scenario's
	Objectives map[string]Limit `json:"objectives,omitempty" of:"fault steady"` // of this phase alone
}

// Fault strikes at a time after the beginning of the measurement: of the first measured phase, after its warm-up. Exactly
// one of the fields below For is set.
type Fault struct {
	At  model.Duration `json:"at"`
	For model.Duration `json:"for,omitempty" check:"100ms..366d"` // how long; 0: until the end, or the next fault that undoes it

	Stop   *Pick      `json:"stop,omitempty"`                                                 // machines die without a word
	Hang   *Pick      `json:"hang,omitempty"`                                                 // agents keep their sessions and run nothing
	Cut    *Pick      `json:"cut,omitempty"`                                                  // connections break at once; their agents reconnect
	Fail   *FailCheck `json:"fail,omitempty"`                                                 // checks fail: one alert each, and one recovery
	Wrong  *Pick      `json:"wrong,omitempty"`                                                // agents send frames that must be refused
	Server string     `json:"server,omitempty" check:"a server fault of restart, kill, stop"` // kill: SIGKILL, then a start; stop: SIGSTOP, then SIGCONT; needs a server of the run's own
}

// Pick selects agents; the seed chooses among them.
type Pick struct {
	Class  string  `json:"class,omitempty" check:"a class"`                                                                   // of this class …
	Group  string  `json:"group,omitempty" check:"a group"`                                                                   // … or of this group; neither: of all
	Count  int     `json:"count,omitempty" check:"1..agents|leave count out for all of them, or leave out the fault|nonzero"` // so many …
	Share  float64 `json:"share,omitempty" check:"share|leave share out for all of them, or leave out the fault|nonzero"`     // … or this share; neither: all
	Within string  `json:"within,omitempty"`                                                                                  // only those with one value of this label: a rack, a site
}

// FailCheck selects checks that fail on some agents.
type FailCheck struct {
	Pick
	Check  string `json:"check" check:"any|write the name of a check|required"` // its name in the class, or NAME-007 for one of many
	Status string `json:"status,omitempty" check:"a status"`                    // default CRITICAL
}

// Change is a change of intent at a time after the beginning of the measurement. The time until every agent concerned
// holds it is measured.
type Change struct {
	At     model.Duration `json:"at"`
	Every  model.Duration `json:"every,omitempty" check:"1s..366d"` // again and again
	Create int            `json:"create,omitempty" check:"1..1000"`
	Change int            `json:"change,omitempty" check:"1..1000"`
	Delete int            `json:"delete,omitempty" check:"1..1000"`
	Kind   string         `json:"kind" check:"a kind to change of check, directive|write kind: check|required"` // directive: change one that all nodes have
	Class  string         `json:"class,omitempty" check:"a class"`                                              // whose agents hold it …
	Group  string         `json:"group,omitempty" check:"a group"`                                              // … or of which group; neither: all
}

// Operators are API users. Their requests have a timetable, however late the answers are; rates are of all of them.
type Operators struct {
	Lists    int  `json:"lists,omitempty" check:"1..10000"`   // people who page through events, one request after the other …
	Pause    Rate `json:"pages,omitempty" check:"rate"`       // … at this rate each; default one every 2 s
	Watches  int  `json:"watches,omitempty" check:"1..10000"` // streams of changes held open
	Applies  Rate `json:"applies,omitempty" check:"rate"`     // resources written
	Runs     Rate `json:"runs,omitempty" check:"rate"`        // ad-hoc commands, each on one machine
	Facts    Rate `json:"facts,omitempty" check:"rate"`       // machines that report changed facts
	Silences Rate `json:"silences,omitempty" check:"rate"`    // of one machine each, for 10 minutes
}
