package v1

import "github.com/muster-fleet/muster/internal/model"

// RunRequest asks for a run now on every node of the targets: of a check that is assigned to it, or
// of a command.
type RunRequest struct {
	Namespace   string         `json:"namespace,omitempty" maxLength:"253" doc:"Default: default."`
	Check       string         `json:"check,omitempty" maxLength:"253" doc:"This or command."`
	Command     *model.Command `json:"command,omitempty" doc:"A line for the shell, or a list of program and arguments. Needs the right to run commands."`
	Targets     *model.Targets `json:"targets,omitempty" doc:"As in a check. None, with a check: every node that runs it."`
	TimeoutMs   int64          `json:"timeoutMs,omitempty" minimum:"0" maximum:"3600000" doc:"How long a command may run; default 30 s. Of a check: how long its end is waited for; default what the check allows, and a minute to wait for its turn."`
	MaxOutput   int            `json:"maxOutput,omitempty" minimum:"0" maximum:"1048576" doc:"Bytes of output of each node; default 65536."`
	Parallel    int            `json:"parallel,omitempty" minimum:"0" maximum:"500" doc:"Nodes at the same time; default 50."`
	MaxAffected int            `json:"maxAffected,omitempty" minimum:"0" doc:"Nodes that may be meant without yes; default a fifth of all, at least 50."`
	Yes         bool           `json:"yes,omitempty"`
}

// Types of RunLine.
const (
	RunStarted = "started" // the agent was asked
	RunOutput  = "output"  // a piece of output
	RunDone    = "done"    // it ended, with a status
	RunRefused = "refused" // nothing ran on this node
	RunLost    = "lost"    // the end is unknown: no session, or no answer in time
	RunSummary = "summary" // of all nodes; the last line
)

// RunLine is one line of the answer to a run.
type RunLine struct {
	Type       string        `json:"type" enum:"started,output,done,refused,lost,summary"`
	Node       string        `json:"node,omitempty"`
	Output     string        `json:"output,omitempty"`
	Status     *model.Status `json:"status,omitempty"`
	DurationMs int64         `json:"durationMs,omitempty"`
	Cut        uint64        `json:"cut,omitempty" doc:"Bytes of output that were cut."`
	Why        string        `json:"why,omitempty"`
	Summary    *RunCounts    `json:"summary,omitempty"`
}

// RunCounts counts the nodes by the end of their run.
type RunCounts struct {
	Nodes    int `json:"nodes"`
	OK       int `json:"ok"`
	Warning  int `json:"warning"`
	Critical int `json:"critical"`
	Unknown  int `json:"unknown"`
	Refused  int `json:"refused"`
	Lost     int `json:"lost"`
}

// Count adds the end of one run.
func (c *RunCounts) Count(l *RunLine) {
	switch {
	case l.Type == RunRefused:
		c.Refused++
	case l.Type == RunLost:
		c.Lost++
	case l.Type != RunDone || l.Status == nil:
	case *l.Status == model.OK:
		c.OK++
	case *l.Status == model.Warning:
		c.Warning++
	case *l.Status == model.Critical:
		c.Critical++
	default:
		c.Unknown++
	}
}
