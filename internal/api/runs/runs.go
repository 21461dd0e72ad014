package runs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

const Path = "/api/v1/runs"

const (
	runParallel   = 50
	commandLasts  = 30 * time.Second
	commandLength = 8 << 10          // bytes of a command: it stands in the record of changes
	answerWithin  = 15 * time.Second // after its time-out an agent has this long to say so
	turnWithin    = time.Minute      // a check may wait this long for its turn on the node
)

func registerRun(at subject) {
	run := op.Post("run", Path, "nodes", "Run a check or a command now, and stream what it says (Server-Sent Events)", model.NotFound, model.Limited, model.Guarded)
	run.MaxBodyBytes = 256 << 10
	run.Responses = op.StreamResponse("Each message's data is a RunLine as JSON; the last one is the summary. Who goes away takes back what still runs.")
	op.Handle(at, run, access.On(access.Operate, "run"), (*request).run)
}

// order is one request, looked through.
type order struct {
	nodes    []model.NodeID
	check    model.CheckID // zero: a command
	run      wire.Run
	within   time.Duration // how long each node's end is waited for; zero: as its check says
	parallel int
	what     string // for the record
	several  bool   // nodes of several namespaces
}

func (s *request) run(ctx context.Context, in *struct{ Body v1.RunRequest }) (*huma.StreamResponse, error) {
	o, err := s.order(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if s.slots.Enter(ctx) != nil {
			s.CountRefusal("runs")
			op.WriteError(w, model.Errorf(model.Limited, "as many runs are open as may be").WithHint("wait until one has ended; muster get queues shows how many there are"))
			return
		}
		defer s.slots.Leave()
		if err := s.Intent.RecordRun(ctx, access.Author(ctx, o.what)); err != nil {
			s.Logger.Error("a run cannot be recorded, and does not begin", "err", err)
			op.WriteError(w, model.Errorf(model.Unavailable, "the run cannot be recorded now, and does not begin").WithHint("the server's log says why; try again"))
			return
		}
		s.Logger.Info("run", "user", access.CallerOf(ctx).User, "from", access.CallerOf(ctx).Address, "what", o.what)
		// The body is read: what the deadline for it would end now is the whole request.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		x := &execution{request: s, order: o, runs: s.New(), until: map[model.NodeID]time.Time{}, out: op.NewEventStream(w)}
		defer x.runs.Close()
		if err := x.all(ctx, r.Header.Get("Authorization")); err != nil && ctx.Err() == nil {
			s.Logger.Debug("run ended", "err", err)
		}
	}}, nil
}

// order looks through a request: nothing is asked of a node before all of it is right.
func (s *request) order(ctx context.Context, r *v1.RunRequest) (*order, error) {
	c := access.CallerOf(ctx)
	ns := cmp.Or(r.Namespace, model.DefaultNamespaceName)
	o := &order{parallel: cmp.Or(r.Parallel, runParallel), several: ns == model.SharedNamespaceName, within: time.Duration(r.TimeoutMs) * time.Millisecond}
	o.run.MaxOutput = uint32(cmp.Or(r.MaxOutput, model.DefaultOutputBytes))
	if _, ok := s.Directory.NamespaceByName(ns); !ok {
		return nil, s.NoNamespace(ctx, ns)
	}
	switch {
	case (r.Check == "") == (r.Command == nil):
		return nil, model.Errorf(model.Invalid, "a run is of a check or of a command").WithHint("name one of them")
	case r.Command != nil:
		if err := s.mayRun(&c, ns, r.Command); err != nil {
			return nil, err
		}
		lasts := cmp.Or(o.within, commandLasts)
		o.run.Command, o.run.TimeoutMs, o.within = r.Command, uint32(lasts.Milliseconds()), lasts+answerWithin
		o.what = "the command " + commandText(r.Command)
		if r.Targets == nil {
			return nil, model.Errorf(model.Invalid, "targets say on which nodes the command runs").WithHint(`for example {"groups": ["web"]}`)
		}
	default:
		at, name := model.SplitRef(ns, r.Check)
		id, ok := s.Directory.CheckByName(at, name)
		if !ok {
			if id, ok = s.Directory.CheckByName(model.SharedNamespaceName, name); !ok {
				return nil, s.NoCheck(ctx, ns, r.Check)
			}
		}
		if id < model.FirstCheck {
			return nil, model.Errorf(model.Invalid, "check %s is built into the server: nothing runs for it on a node", name).WithHint("muster why NODE/%s", name)
		}
		o.check, o.what = id, "check "+r.Check
	}
	if err := s.aim(ctx, o, ns, r); err != nil {
		return nil, err
	}
	o.what = fmt.Sprintf("%s on %s: %s", o.what, model.CountNoun(len(o.nodes), "node"), targetsText(r.Targets))
	return o, nil
}

// mayRun refuses a command of who may not run any, whatever the role, and one that is none.
func (s *request) mayRun(c *access.Caller, namespace string, command *model.Command) error {
	length := len(command.Shell)
	for _, arg := range command.Argv {
		length += len(arg) + 1
	}
	switch {
	case !c.MayRun(namespace):
		s.CountRefusal("run")
		return model.Errorf(model.Forbidden, "%s may not run commands (role %s without that right)", c.User, &c.Grants).
			WithHint("who may gives the right: muster auth user create NAME --role operator --may-run-commands; checks need only the role: muster run CHECK")
	case strings.TrimSpace(command.Shell) == "" && (len(command.Argv) == 0 || command.Argv[0] == ""):
		return model.Errorf(model.Invalid, "the command is empty")
	case length > commandLength:
		return model.Errorf(model.Invalid, "the command has %d bytes, at most %d", length, commandLength).WithHint("put a script on the nodes and run that")
	}
	return nil
}

// aim finds the nodes, and guards against more than was meant.
func (s *request) aim(ctx context.Context, o *order, ns string, r *v1.RunRequest) error {
	if r.Targets == nil {
		for _, id := range s.Directory.UnitNodes(o.check) {
			if at, _, ok := s.Directory.NodeName(id); ok && !s.Directory.NodeProxy(id) && (at == ns || ns == model.SharedNamespaceName) {
				o.nodes = append(o.nodes, id)
			}
		}
	} else {
		if err := s.namesIn(ctx, ns, r.Targets); err != nil {
			return err
		}
		var err error
		if o.nodes, err = s.Directory.Select(ns, r.Targets); err != nil {
			return err
		}
	}
	if len(o.nodes) == 0 {
		return model.Errorf(model.NotFound, "no node matches: %s", targetsText(r.Targets)).WithHint("which nodes there are: muster get nodes -n %s", ns)
	}
	most := r.MaxAffected
	if most <= 0 {
		most = max(50, len(s.Directory.Nodes(""))/5)
	}
	if len(o.nodes) > most && !r.Yes {
		return model.Errorf(model.Guarded, "this would run on %d nodes; without --yes at most %d", len(o.nodes), most).
			WithHint("which nodes: muster get nodes; then repeat with --yes, or with --max-affected %d", len(o.nodes))
	}
	return nil
}

// namesIn refuses names that mean nothing: somebody has mistyped, and would not hear of it.
func (s *request) namesIn(ctx context.Context, ns string, t *model.Targets) error {
	if t == nil {
		return nil
	}
	for _, name := range t.Nodes {
		at, bare := model.SplitRef(ns, name)
		if _, ok := s.Directory.NodeByName(at, bare); !ok {
			return s.NoNode(ctx, at, bare)
		}
	}
	for _, name := range t.Groups {
		at, bare := model.SplitRef(ns, name)
		if len(s.Directory.GroupMembers(at, bare)) > 0 {
			continue
		}
		key := intent.Key{Kind: "Group", Namespace: at, Name: bare}
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return s.NotFound(ctx, err, key)
		}
	}
	return s.namesIn(ctx, ns, t.Except)
}

func commandText(c *model.Command) string {
	if c.Argv == nil {
		return fmt.Sprintf("%q", c.Shell)
	}
	return fmt.Sprintf("%q", c.Argv)
}

// targetsText is targets as they are typed after --on.
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
