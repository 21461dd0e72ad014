// Package runs runs a check, directive or command on nodes when a person asks, and streams the answers. No
// node is asked before the whole request is valid (runRequest.prepareRunTask) and recorded; runExecution.runAllNodes
// then asks a bounded number of nodes at a time.
//
// Start reading at runRequest.runOnNodes.
package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

const Path = "/api/v1/runs"

const (
	defaultParallel = 50
	commandTimeout  = 30 * time.Second
	maxCommandBytes = 8 << 10          // bytes of a command; the record of changes stores it
	answerGrace     = 15 * time.Second // time after the timeout within which the agent must report
	turnGrace       = time.Minute      // a check may wait this long for its turn on the node
)

// runTask is a validated request to run a check or a command immediately on selected nodes.
type runTask struct {
	nodes             []model.NodeID
	unit              model.UnitID // check or directive to run; zero: the task runs a command
	run               wire.Run
	timeout           time.Duration // time limit on each node; zero: the timeout of the check or directive on the node
	parallel          int
	description       string // for the record of changes
	severalNamespaces bool   // the nodes of the task lie in several namespaces
}

// runOnNodes runs a check or a command on nodes now and streams their answers.
func (s *runRequest) runOnNodes(ctx context.Context, in *struct{ Body v1.RunRequest }) (*huma.StreamResponse, error) {
	o, err := s.prepareRunTask(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		c := access.CallerOf(ctx)
		leave, ok := s.shares.Enter(c.Owner())
		if !ok {
			s.CountRefusal("runs")
			op.WriteError(w, model.Errorf(model.Limited, "user %s has reached the limit of runs in progress per user", c.Owner()).
				WithHint("wait until one of your runs has ended; runs by tokens that %s created count too: muster auth token list", c.Owner()))
			return
		}
		defer leave()
		if s.slots.Enter(ctx) != nil {
			s.CountRefusal("runs")
			op.WriteError(w, model.Errorf(model.Limited, "too many runs are in progress").WithHint("wait until a run has ended; see the number of runs: muster get queues"))
			return
		}
		defer s.slots.Leave()
		if err := s.RecordAction(ctx, o.description); err != nil {
			s.WriteFailure(w, "run", err)
			return
		}
		// The body has arrived. Its read deadline must be removed, or it would end the whole stream.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		x := &runExecution{request: s, runTask: o, runs: s.New(), deadlines: map[model.NodeID]time.Time{}, out: op.NewEventStream(w)}
		defer x.runs.Close()
		if err := x.runAllNodes(ctx, s.NewRightsCheck(r)); err != nil && ctx.Err() == nil {
			s.Logger.Debug("run ended", "err", err)
		}
	}}, nil
}

// prepareRunTask validates a request and selects its nodes, before the run starts on any node.
func (s *runRequest) prepareRunTask(ctx context.Context, r *v1.RunRequest) (*runTask, error) {
	c := access.CallerOf(ctx)
	ns := cmp.Or(r.Namespace, model.DefaultNamespaceName)
	o := &runTask{parallel: cmp.Or(r.Parallel, defaultParallel), severalNamespaces: ns == model.SharedNamespaceName, timeout: time.Duration(r.TimeoutMs) * time.Millisecond}
	o.run.MaxOutput = uint32(cmp.Or(r.MaxOutput, model.DefaultOutputBytes))
	if err := s.RequireNamespace(ctx, ns); err != nil {
		return nil, err
	}
	given := 0
	for _, is := range []bool{r.Check != "", r.Directive != "", r.Command != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, model.Errorf(model.Invalid, "a run needs a check, a directive or a command").WithHint("give exactly one of them")
	case r.Command != nil:
		if err := s.checkCommand(&c, ns, r.Command); err != nil {
			return nil, err
		}
		lasts := cmp.Or(o.timeout, commandTimeout)
		o.run.Command, o.run.TimeoutMs, o.timeout = r.Command, uint32(lasts.Milliseconds()), lasts+answerGrace
		o.description = "the command " + commandText(r.Command)
		if r.Targets == nil {
			return nil, model.Errorf(model.Invalid, "the field targets is empty: it must select the nodes on which the command runs").WithHint(`for example {"groups": ["web"]}`)
		}
	case r.Directive != "":
		id, err := s.findDirective(ctx, ns, r.Directive)
		if err != nil {
			return nil, err
		}
		o.unit, o.description = id, "directive "+r.Directive
	default:
		at, name := model.SplitRef(ns, r.Check)
		id, ok := s.Directory.CheckByName(at, name)
		if !ok {
			if id, ok = s.Directory.CheckByName(model.SharedNamespaceName, name); !ok {
				return nil, s.CheckNotFoundError(ctx, ns, r.Check)
			}
		}
		if id < model.FirstCheck {
			return nil, model.Errorf(model.Invalid, "check %s is built into the server, and no node can run it", name).WithHint("muster why NODE/%s", name)
		}
		o.unit, o.description = id, "check "+r.Check
	}
	if err := s.selectTaskNodes(ctx, o, ns, r); err != nil {
		return nil, err
	}
	o.description = fmt.Sprintf("%s on %s: %s", o.description, model.CountNoun(len(o.nodes), "node"), targetsText(r.Targets))
	return o, nil
}

// findDirective returns the id of a directive, from its namespace or from shared. A directive that Rudder's agents run
// is an error.
func (s *runRequest) findDirective(ctx context.Context, ns, text string) (model.UnitID, error) {
	at, name := model.SplitRef(ns, text)
	id, ok := s.Directory.UnitByName(directory.DirectiveKind, at, name)
	if !ok {
		if id, ok = s.Directory.UnitByName(directory.DirectiveKind, model.SharedNamespaceName, name); !ok {
			key := intent.Key{Kind: "Directive", Namespace: at, Name: name}
			return 0, s.ExplainNotFound(ctx, model.Errorf(model.NotFound, "%s does not exist", key), key)
		}
	}
	if u := s.Directory.SourceUnit(model.DirectiveSource(id)); u != nil && u.Definition.Kind == model.DefinitionExpectation {
		return 0, model.Errorf(model.Invalid, "Rudder's agents run directive %s", name).WithHint("start it there: rudder remote run NODE")
	}
	return id, nil
}

// checkCommand returns an error for an empty or too long command. A caller without the right to run commands gets an
// error, too.
func (s *runRequest) checkCommand(c *access.Caller, namespace string, command *model.Command) error {
	length := len(command.Shell)
	for _, arg := range command.Argv {
		length += len(arg) + 1
	}
	switch {
	case !c.MayRun(namespace):
		s.CountRefusal("run")
		return model.Errorf(model.Forbidden, "user %s may not run commands: its role %s does not include that right", c.User, &c.Grants).
			WithHint("a user with that permission can grant it: muster auth user create NAME --role operator --may-run-commands; checks need only the role: muster run CHECK")
	case strings.TrimSpace(command.Shell) == "" && (len(command.Argv) == 0 || command.Argv[0] == ""):
		return model.Errorf(model.Invalid, "the command is empty")
	case length > maxCommandBytes:
		return model.Errorf(model.Invalid, "the command has %d bytes; the limit is %d", length, maxCommandBytes).WithHint("install a script on the nodes and run that")
	}
	return nil
}

// selectTaskNodes selects the nodes on which a requested command or check will run. More nodes than the request
// permits are an error.
func (s *runRequest) selectTaskNodes(ctx context.Context, o *runTask, ns string, r *v1.RunRequest) error {
	if r.Targets == nil {
		for _, id := range s.Directory.UnitNodes(o.unit) {
			if at, _, ok := s.Directory.NodeName(id); ok && !s.Directory.Node(id).Proxy && (at == ns || ns == model.SharedNamespaceName) {
				o.nodes = append(o.nodes, id)
			}
		}
	} else {
		if err := s.checkTargetNames(ctx, ns, r.Targets); err != nil {
			return err
		}
		var err error
		if o.nodes, err = s.Directory.Select(ns, r.Targets); err != nil {
			return err
		}
	}
	if len(o.nodes) == 0 {
		return model.Errorf(model.NotFound, "no node matches the targets: %s", targetsText(r.Targets)).WithHint("list the nodes: muster get nodes -n %s", ns)
	}
	most := r.MaxAffected
	if most <= 0 {
		most = max(50, len(s.Directory.Nodes(""))/5)
	}
	if len(o.nodes) > most && !r.Yes {
		return model.Errorf(model.Guarded, "the run would be on %d nodes; more than %d need --yes", len(o.nodes), most).
			WithHint("list the nodes: muster get nodes; then repeat the command with --yes or --max-affected %d", len(o.nodes))
	}
	return nil
}

// checkTargetNames returns an error if the targets contain unknown nodes or groups.
func (s *runRequest) checkTargetNames(ctx context.Context, ns string, t *model.Targets) error {
	if t == nil {
		return nil
	}
	for _, name := range t.Nodes {
		at, bare := model.SplitRef(ns, name)
		if _, ok := s.Directory.NodeByName(at, bare); !ok {
			return s.NodeNotFoundError(ctx, at, bare)
		}
	}
	for _, name := range t.Groups {
		at, bare := model.SplitRef(ns, name)
		if len(s.Directory.GroupMembers(at, bare)) > 0 {
			continue
		}
		key := intent.Key{Kind: "Group", Namespace: at, Name: bare}
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return s.ExplainNotFound(ctx, err, key)
		}
	}
	return s.checkTargetNames(ctx, ns, t.Except)
}

// commandText formats a command for the audit log, as its shell line or its words.
func commandText(c *model.Command) string {
	if c.Argv == nil {
		return fmt.Sprintf("%q", c.Shell)
	}
	return fmt.Sprintf("%q", c.Argv)
}

// targetsText formats the targets of a run in the syntax of the command-line flag --on.
func targetsText(t *model.Targets) string {
	if t == nil {
		return "all that run it"
	}
	var list []string
	for _, g := range t.Groups {
		list = append(list, "group:"+g)
	}
	list = append(list, t.Nodes...)
	if t.Where != "" {
		where := "where:" + t.Where
		if t.Where == "true" {
			where = "all"
		}
		list = append(list, where)
	}
	if t.Except != nil {
		list = append(list, "but not "+targetsText(t.Except))
	}
	return strings.Join(list, ", ")
}

// Runs starts the runs of one request on the agents, and receives their answers. Close cancels the runs that have not
// ended.
type Runs interface {
	RequestRun(node model.NodeID, run wire.Run) error
	Wake() <-chan struct{}
	Next() (model.RunAnswer, bool)
	Forget(node model.NodeID)
	Close()
}

// Options has the parts of the server that run checks and commands on nodes.
type Options struct {
	New func() Runs // creates the runs of one request
}

// runRequest handles an HTTP request to run a check, directive or command on nodes. Its methods are the operations of the API.
type runRequest struct {
	op.Request
	Options
	slots    *queue.Slots
	shares   *op.Quota[string] // of slots, by user
	outcomes *prometheus.CounterVec
}

// Register adds the operation that runs a check, directive or command on nodes.
func Register(r *op.Routes, o Options) {
	slots, shares := queue.NewSlots(r.Queues, "runs"), op.NewUserQuota(r.Queues, "runs")
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_api_runs_total", Help: "Requested runs (muster run), one for each node, by outcome.",
	}, []string{"outcome"})
	r.Metrics.Register(outcomes)
	at := op.NewOperationSet(r, func(q op.Request) *runRequest { return &runRequest{q, o, slots, shares, outcomes} })
	run := op.Post("run", Path, "nodes", "Run a check, directive or command now and stream its output (Server-Sent Events)", model.NotFound, model.Limited, model.Guarded)
	run.Responses = op.StreamResponse("The data of each message is a RunLine as JSON; the last is the summary. Closing the connection cancels the remaining runs.")
	op.Handle(at, run, access.NeedOn(access.Operate, "run"), (*runRequest).runOnNodes)
}

// runExecution executes one run request on many nodes and streams the answers to the client.
type runExecution struct {
	request *runRequest
	*runTask
	runs      Runs
	deadlines map[model.NodeID]time.Time // deadline of each node that is running
	out       *op.EventStream
	counts    v1.RunCounts
}

// runAllNodes runs the command or check on all nodes, on a limited number of nodes in parallel. It streams the answers
// until all nodes have ended. An error means that the client is gone.
func (x *runExecution) runAllNodes(ctx context.Context, allowed func() bool) error {
	x.counts.Nodes = len(x.nodes)
	beat, look := time.NewTicker(op.StreamHeartbeatInterval), time.NewTicker(time.Second)
	defer beat.Stop()
	defer look.Stop()
	waiting := x.nodes
	for {
		for len(waiting) > 0 && len(x.deadlines) < x.parallel {
			if err := x.startNodeRun(waiting[0]); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
		if len(waiting) == 0 && len(x.deadlines) == 0 {
			return x.out.Send("", &v1.RunLine{Type: v1.RunSummary, Summary: &x.counts})
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.runs.Wake():
			err = x.sendRunAnswers()
		case <-look.C:
			err = x.giveUpOverdueNodes()
		case <-beat.C:
			if !allowed() {
				return x.out.End("the token has expired, was deleted, or has fewer rights now")
			}
			err = x.out.Write(":\n\n")
		}
		if err != nil {
			return err
		}
	}
}

// startNodeRun requests the run from the agent of one node.
func (x *runExecution) startNodeRun(node model.NodeID) error {
	run, timeout := x.runTask.run, x.timeout
	if x.unit != 0 {
		definition := x.request.Assigned(node, x.unit)
		if definition == nil {
			return x.endNodeRun(node, &v1.RunLine{Type: v1.RunRefused, Reason: "the check or directive is not assigned to this node"})
		}
		run.Definition = definition.ID
		lasts := time.Duration(0)
		if check := definition.AsCheck(); check != nil {
			lasts = check.Timeout
		} else if directive := definition.AsDirective(); directive != nil {
			lasts = directive.Timeout
		}
		timeout = cmp.Or(timeout, lasts+answerGrace+turnGrace)
	}
	if err := x.runs.RequestRun(node, run); err != nil {
		var said *model.Error
		line := &v1.RunLine{Type: v1.RunRefused, Reason: err.Error()}
		if errors.As(err, &said) {
			line.Reason = said.Message
			if said.Class == model.NotFound {
				line.Type = v1.RunLost
			}
		}
		return x.endNodeRun(node, line)
	}
	x.deadlines[node] = x.request.Now().Add(timeout)
	return x.sendRunLine(node, &v1.RunLine{Type: v1.RunStarted})
}

// sendRunAnswers forwards answers of agents that have already arrived to the client.
func (x *runExecution) sendRunAnswers() error {
	for {
		a, ok := x.runs.Next()
		if !ok {
			return nil
		}
		if len(a.Output) > 0 {
			if err := x.sendRunLine(a.Node, &v1.RunLine{Type: v1.RunOutput, Output: string(a.Output)}); err != nil {
				return err
			}
		}
		if !a.Last {
			continue
		}
		line := &v1.RunLine{Type: v1.RunDone, Status: &a.Status, DurationMs: a.Duration.Milliseconds(), Cut: a.Cut}
		switch {
		case a.EndUnknown != "":
			line = &v1.RunLine{Type: v1.RunLost, Reason: a.EndUnknown}
		case a.Refused != "":
			line = &v1.RunLine{Type: v1.RunRefused, Reason: a.Refused}
		}
		if err := x.endNodeRun(a.Node, line); err != nil {
			return err
		}
	}
}

// giveUpOverdueNodes ends the run on each node whose answer did not arrive by the deadline.
func (x *runExecution) giveUpOverdueNodes() error {
	now := x.request.Now()
	for node, until := range x.deadlines {
		if now.After(until) {
			x.runs.Forget(node)
			if err := x.endNodeRun(node, &v1.RunLine{Type: v1.RunLost, Reason: "no answer in time: the run waits, because the agent runs its maximum of commands at once"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// endNodeRun counts the result of the run on one node, and sends the result to the client.
func (x *runExecution) endNodeRun(node model.NodeID, l *v1.RunLine) error {
	delete(x.deadlines, node)
	x.counts.Count(l)
	x.request.outcomes.WithLabelValues(l.Type).Inc()
	return x.sendRunLine(node, l)
}

// sendRunLine sends the client one line of the streamed answer, such as a node's output. It is a piece of
// output or the final result.
func (x *runExecution) sendRunLine(node model.NodeID, l *v1.RunLine) error {
	namespace, name, ok := x.request.Directory.NodeName(node)
	switch {
	case !ok:
		name = fmt.Sprintf("node %d", node) // the node was deleted meanwhile
	case x.severalNamespaces:
		name = namespace + "/" + name
	}
	l.Node = name
	return x.out.Send("", l)
}
