package v1

import (
	"encoding/json"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// ChangeOptions has the options, such as dry run and reason, of every request that changes resources. A request
// about one resource has these fields in its query.
type ChangeOptions struct {
	DryRun      bool   `json:"dryRun,omitempty" query:"dryRun" doc:"Report the effect without changing anything."`
	Message     string `json:"message,omitempty" query:"message" maxLength:"1000" doc:"Reason for the change, for the record."`
	MaxAffected int    `json:"maxAffected,omitempty" query:"maxAffected" minimum:"0" doc:"Refuse a change that affects more nodes; 0: a fifth of all, at least 50."`
	Yes         bool   `json:"yes,omitempty" query:"yes" doc:"Confirm the change for any number of nodes."`
}

// ApplyRequest is a request to declare many resources in one transaction, all or none.
type ApplyRequest struct {
	ChangeOptions
	Resources  []json.RawMessage `json:"resources" maxItems:"10000" doc:"Resources {apiVersion, kind, metadata, spec}; at least one, unless allowEmpty is set."`
	Owner      string            `json:"owner,omitempty" maxLength:"253" doc:"Owner of the resources, stored in metadata.owner. The server refuses resources of another owner."`
	TakeOver   bool              `json:"takeOver,omitempty" doc:"Also change resources of another owner."`
	Prune      bool              `json:"prune,omitempty" doc:"Delete resources of the owner that are not in resources, in the same transaction."`
	AllowEmpty bool              `json:"allowEmpty,omitempty" doc:"With prune: an empty list is intended and deletes all resources of the owner."`
	Namespace  string            `json:"namespace,omitempty" doc:"Namespace for resources that name none."`
	OnlyNew    bool              `json:"onlyNew,omitempty" doc:"Notify nobody of problems that are open now and that a route or handler list takes since this change."`
	Expect     []Expected        `json:"expect,omitempty" maxItems:"10000" doc:"Refuse the whole change (412) if one of these resources has changed: If-Match for many."`
}

// Expected is the present revision of a resource that an apply request requires, or else changes nothing. An
// apply changes the resource only at that revision.
type Expected struct {
	Ref
	Revision int64 `json:"revision" minimum:"0" doc:"status.revision at the time of reading; 0: the resource must not exist."`
}

// DeleteRequest is a request to delete many resources in one transaction, all or none.
type DeleteRequest struct {
	ChangeOptions
	Resources []Ref `json:"resources" minItems:"1" maxItems:"10000"`
}

// Ref names a resource by kind, namespace and name.
type Ref struct {
	Kind      string `json:"kind" maxLength:"253"`
	Namespace string `json:"namespace,omitempty" maxLength:"253"`
	Name      string `json:"name" maxLength:"253"`
}

// Applied is the result of an apply, with one entry for each resource
type Applied struct {
	Revision int64        `json:"revision" doc:"Revision of the intent after the change; 0: nothing changed."`
	DryRun   bool         `json:"dryRun,omitempty"`
	Affected int          `json:"affected" doc:"Number of nodes whose assignment changes."`
	Outcomes []Outcome    `json:"outcomes"`
	Units    []UnitImpact `json:"units,omitempty" doc:"For a dry run: checks, directives and Templates whose definition nodes get, lose or change."`
	Timings  []StepTime   `json:"timings,omitempty" doc:"For a dry run: time of each step of the planner."`
	Refused  *Refused     `json:"refused,omitempty" doc:"For a dry run: reason why the server would refuse the change."`
	RoutingEffect
}

// UnitImpact counts the nodes on which a change adds, removes or changes a check, directive or Template. It
// also counts the nodes on which it would appear or disappear.
type UnitImpact struct {
	Kind        string   `json:"kind"`
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Gets        int      `json:"gets,omitempty" doc:"Number of nodes that get it."`
	Loses       int      `json:"loses,omitempty" doc:"Number of nodes that lose it."`
	Changes     int      `json:"changes,omitempty" doc:"Number of nodes on which it changes."`
	Nodes       []string `json:"nodes,omitempty" doc:"Names of the first of these nodes."`
	Differences []string `json:"differences,omitempty" doc:"Fields of its definition, each with its old and new value; absent for callers that may not change it."`
	Steps       []string `json:"steps,omitempty" doc:"Steps of its roll-out; absent: the change reaches all nodes at once."`
}

// StepTime is the duration of one step in which the planner computed the preview of a change.
type StepTime struct {
	Step         string `json:"step"`
	Microseconds int64  `json:"microseconds"`
}

// RoutingEffect lists the open problems whose route or handlers a change of resources replaces.
type RoutingEffect struct {
	AffectedProblems []AffectedProblems `json:"affectedProblems,omitempty" doc:"Open problems that the changed routes and handler lists concern, or would concern after a dry run."`
	TakenLate        bool               `json:"takenLate,omitempty" doc:"History is behind: open problems are notified when it has caught up, and their number is unknown."`
}

// AffectedProblems counts the open problems that a change moved to one particular route or list of handlers.
type AffectedProblems struct {
	Route    string    `json:"route,omitempty" doc:"NAMESPACE/NAME; absent: a check, node or namespace names the handlers."`
	Handlers []string  `json:"handlers" doc:"NAMESPACE/NAME of the handlers of the first step."`
	Problems int       `json:"problems"`
	Notified int       `json:"notified,omitempty" doc:"Number of those problems of which the handlers were notified before the change; they are not notified again."`
	OnHold   int       `json:"onHold,omitempty" doc:"Number of those problems that are not notified now: silenced, acknowledged, in maintenance, or left out by onlyNew."`
	At       time.Time `json:"at,omitzero" doc:"Time of the one message about the others; absent: there is none, or the change is a dry run."`
}

// Refused is the reason why the server would refuse to apply the resources of a dry run.
type Refused struct {
	Class  string `json:"class" doc:"Class as in type of an error: guarded, conflict."`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Outcome is the result of an apply or a deletion for one resource, such as created or unchanged.
type Outcome struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Op        string   `json:"op" enum:"created,updated,unchanged,renamed,retired,deleted"`
	Was       string   `json:"was,omitempty" doc:"Former name of a renamed resource."`
	Revision  int64    `json:"revision,omitempty"`
	Nodes     int      `json:"nodes" doc:"Number of nodes that run it, read it or are members of it."`
	Checks    int      `json:"checks,omitempty" doc:"Number of checks that use it."`
	Note      string   `json:"note,omitempty" doc:"The same in words."`
	Warnings  []string `json:"warnings,omitempty" doc:"For example: the check runs on no node."`
	Diff      string   `json:"diff,omitempty" doc:"Change as a unified difference of YAML."`
}

// Resource is a declared resource, with its kind, name, labels and spec. The fields of its spec depend on the kind.
type Resource = model.Resource

// ResourceList is a page of resources, sorted by name.
type ResourceList struct {
	Items  []json.RawMessage `json:"items"`
	States []State           `json:"states,omitempty" doc:"State of each item, for requests with state=true."`
	Next   string            `json:"next,omitempty" doc:"Value for after to get the next page; absent on the last page."`
}

// Change is one audit record about a resource, with author, time, address and reason.
type Change struct {
	Revision  int64     `json:"revision"`
	At        time.Time `json:"at"`
	User      string    `json:"user"`
	Address   string    `json:"address,omitempty"`
	Message   string    `json:"message,omitempty"`
	Owner     string    `json:"owner,omitempty" doc:"Owner that the apply named."`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Op        string    `json:"op" enum:"create,update,rename,delete,retire"`
	Was       string    `json:"was,omitempty" doc:"Former name of a renamed resource."`
	Diff      string    `json:"diff,omitempty" doc:"Change as a unified difference of YAML; absent for resources with secrets."`
	More      int       `json:"more,omitempty" doc:"In the status: number of further resources in the same apply."`
}

// ChangeList is a page of audit records.
type ChangeList struct {
	Items []Change `json:"items"`
	Next  string   `json:"next,omitempty"`
}

// Kind describes one kind of resource, such as Check.
type Kind struct {
	Kind       string  `json:"kind"`
	Plural     string  `json:"plural"`
	Short      string  `json:"short,omitempty"`
	Namespaced bool    `json:"namespaced"`
	Doc        string  `json:"doc"`
	Fields     []Field `json:"fields,omitempty"`
}

// Field describes one field in the spec of a resource kind, for muster explain.
type Field struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Doc  string `json:"doc,omitempty"`
}

// Archive is the state of an archive of an Asset on the server.
type Archive struct {
	SHA512   string `json:"sha512"`
	Stored   bool   `json:"stored" doc:"The server has the complete archive."`
	Bytes    int64  `json:"bytes,omitempty" doc:"Size."`
	InAsset  bool   `json:"inAsset,omitempty" doc:"An Asset names the archive; the server deletes others after an hour."`
	Fetching bool   `json:"fetching,omitempty" doc:"The server downloads the archive from its url, or will."`
	Trouble  string `json:"trouble,omitempty" doc:"Reason why the download failed."`
}

// RunRequest is a request to run a check or a command once, now, on all targeted nodes. A check must be assigned to
// the node.
type RunRequest struct {
	Namespace   string         `json:"namespace,omitempty" maxLength:"253" doc:"Default: default."`
	Check       string         `json:"check,omitempty" maxLength:"253" doc:"Check to run; excludes directive and command."`
	Directive   string         `json:"directive,omitempty" maxLength:"253" doc:"Directive to run, in its mode on each node; excludes check and command."`
	Command     *model.Command `json:"command,omitempty" doc:"A shell command, or a list of program and arguments. Needs the right to run commands."`
	Targets     *model.Targets `json:"targets,omitempty" doc:"Targets as in a check; default with check or directive: every node that runs it."`
	TimeoutMs   int64          `json:"timeoutMs,omitempty" minimum:"0" maximum:"3600000" doc:"Time limit of a command, default 30 s. For a check or directive: time to wait for its end, default its timeout plus a minute."`
	MaxOutput   int            `json:"maxOutput,omitempty" minimum:"0" maximum:"1048576" doc:"Bytes of output of each node; default 65536."`
	Parallel    int            `json:"parallel,omitempty" minimum:"0" maximum:"500" doc:"Nodes at the same time; default 50."`
	MaxAffected int            `json:"maxAffected,omitempty" minimum:"0" doc:"Largest number of nodes without yes; default a fifth of all, at least 50."`
	Yes         bool           `json:"yes,omitempty"`
}

// Types of the lines that a run on nodes answers with (RunLine.Type).
const (
	RunStarted = "started" // the agent of the node was asked to run
	RunOutput  = "output"  // a piece of the output of the command
	RunDone    = "done"    // the run on the node ended, with a status
	RunRefused = "refused" // nothing ran on this node
	RunLost    = "lost"    // the end is unknown: no session, or no answer in time
	RunSummary = "summary" // the counts over all nodes; the last line
)

// RunLine is one line in the server's streamed answer to a RunRequest, such as a node's output. It is a piece
// of output, or the result of one node.
type RunLine struct {
	Type       string        `json:"type" enum:"started,output,done,refused,lost,summary"`
	Node       string        `json:"node,omitempty"`
	Output     string        `json:"output,omitempty"`
	Status     *model.Status `json:"status,omitempty"`
	DurationMs int64         `json:"durationMs,omitempty"`
	Cut        uint64        `json:"cut,omitempty" doc:"Bytes of output cut away."`
	Reason     string        `json:"reason,omitempty"`
	Summary    *RunCounts    `json:"summary,omitempty"`
}

// RunCounts counts the nodes of a run by outcome, such as succeeded or failed.
type RunCounts struct {
	Nodes      int `json:"nodes"`
	OK         int `json:"ok"`
	Warning    int `json:"warning"`
	Critical   int `json:"critical"`
	Unknown    int `json:"unknown"`
	Refused    int `json:"refused"`
	EndUnknown int `json:"endUnknown"`
}

// Count adds the outcome of a run on one node to the counts.
func (c *RunCounts) Count(l *RunLine) {
	switch {
	case l.Type == RunRefused:
		c.Refused++
	case l.Type == RunLost:
		c.EndUnknown++
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
