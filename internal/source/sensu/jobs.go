package sensu

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// recipe is a definition made ready to be asked for. It is immutable, and where no property
// of a node is in it shared by all nodes.
type recipe struct {
	chunk    *model.CheckChunk
	ask      sensuwire.Ask
	location *time.Location // of cron
	problem  string         // why a Sensu agent cannot run it: the result is UNKNOWN with this

	encoded [2]atomic.Pointer[[]byte] // the request but for when, in protobuf and JSON, once it was made
}

// what is the request but for when it is issued.
func (r *recipe) what(codec sensuwire.Codec) []byte {
	at := &r.encoded[0]
	if _, json := codec.(sensuwire.JSON); json {
		at = &r.encoded[1]
	}
	if made := at.Load(); made != nil {
		return *made
	}
	made := codec.AppendWhat(nil, &r.ask)
	at.Store(&made)
	return made
}

// job is one check of one session. The session's mu guards it, but for what is the
// timetable's.
type job struct {
	x       *session
	recipe  *recipe
	about   directory.ProxyNode // the proxy node that it is about; its ID is zero: this node
	before  *model.CheckChunk   // the definition before, for runs that were asked for under it …
	from    int64               // … before this second
	issued  int64               // of the last request, s since 1970
	waits   bool                // for its answer
	seeking bool                // for its secrets
	due     bool                // stands in the session's asks

	// The timetable's.
	at      int64         // when it is due, by boot
	slot    time.Duration // when that is within its interval; see together
	tick    time.Time     // of cron: when that is by the wall clock
	unknown bool          // nobody has run it yet
}

// find is the job of a check about a proxy entity (empty: the agent's own), in a sorted list.
func find(jobs []*job, name, proxy []byte) *job {
	i, ok := slices.BinarySearchFunc(jobs, name, func(j *job, name []byte) int {
		a := &j.recipe.ask
		return cmp.Or(strings.Compare(a.Name, string(name)), strings.Compare(a.Proxy, string(proxy)))
	})
	if !ok {
		return nil
	}
	return jobs[i]
}

func (j *job) same(jobs []*job) *job {
	return find(jobs, []byte(j.recipe.ask.Name), []byte(j.recipe.ask.Proxy))
}

// recipes are shared by sessions: of definitions without properties.
type recipes struct {
	mu sync.Mutex
	by map[model.ChunkID]*recipe
}

// mostRecipes bounds what is kept of definitions that are gone.
const mostRecipes = 20_000

// plan brings the session's jobs in line with its node's assignment. The reader does it when the session
// begins, and a writer when the assignment has changed.
func (x *session) plan() {
	x.planning.Lock()
	defer x.planning.Unlock()
	a := x.srv.cfg.Assignments.For(x.node.ID)
	if a == nil {
		if _, ok := x.srv.cfg.Intent.LookupNode(x.uid); !ok {
			_ = x.conn.WriteClose(1001, "the node was deleted")
			_ = x.conn.Close()
		}
		return
	}
	list := make([]*job, 0, len(a.Chunks))
	x.Mu.Lock()
	had, over := x.jobs, x.EndedLocked()
	x.Mu.Unlock()
	if over {
		return
	}
	now := x.srv.cfg.Now().Unix()
	about := subjects(a)
	for _, chunk := range a.Chunks {
		c := chunk.AsCheck()
		if c == nil {
			continue
		}
		for _, of := range subjectsOf(c, a, about) {
			j := &job{x: x, recipe: x.recipeOf(c, &of), about: of.ProxyNode, from: now}
			if old := j.same(had); old != nil && old.about == j.about {
				if old.recipe.chunk.ID == c.ID && old.recipe.problem == j.recipe.problem && reflect.DeepEqual(&old.recipe.ask, &j.recipe.ask) {
					list = append(list, old)
					continue
				}
				j.before, j.issued = old.recipe.chunk, old.issued
			}
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *job) int {
		a1, b1 := &a.recipe.ask, &b.recipe.ask
		return cmp.Or(strings.Compare(a1.Name, b1.Name), strings.Compare(a1.Proxy, b1.Proxy))
	})
	x.Mu.Lock()
	if x.EndedLocked() {
		x.Mu.Unlock()
		return
	}
	x.jobs, x.revision = list, a.Generation.Revision
	x.Mu.Unlock()
	old := make(map[*job]bool, len(had))
	for _, j := range had {
		old[j] = true
	}
	timed := make([]*job, 0, len(list))
	for _, j := range list {
		if j.recipe.chunk.RoundRobin {
			continue // it is asked for when it is its turn: see Give
		}
		if timed = append(timed, j); !old[j] {
			j.unknown = j.before == nil && !x.srv.cfg.View.Known(x.subject(j), j.recipe.chunk.Unit)
		}
	}
	x.srv.setJobs(x, timed)
}

// recipeOf makes a definition ready for this session's node, or the proxy node that it is about.
func (x *session) recipeOf(c *model.CheckChunk, of *subject) *recipe {
	template, err := c.Template()
	shared := err == nil && len(template.Names()) == 0 && c.Namespace == x.node.Namespace && of.ID == 0 && len(c.Assets) == 0
	r := &x.srv.recipes
	if shared {
		r.mu.Lock()
		known := r.by[c.ID]
		r.mu.Unlock()
		if known != nil {
			return known
		}
	}
	made := &recipe{chunk: c, ask: sensuwire.Ask{
		Name: c.Name, Proxy: of.name, Namespace: x.namespace, Interval: uint32(max(c.Interval/time.Second, 1)), Timeout: uint32((c.Timeout + time.Second - 1) / time.Second),
	}}
	if c.Namespace != x.node.Namespace { // no name of a check has a colon
		made.ask.Name = model.SharedNamespaceName + ":" + c.Name
	}
	var run model.ExpandedCommand
	if err == nil {
		run, err = template.Expand(valuesOf(of.properties))
	}
	if err == nil && c.Cron != "" {
		made.location, err = when.ParseCron(c.Cron, c.TimeZone)
	}
	switch {
	case err != nil:
		made.problem = problemOf(err)
	case run.Probe != "":
		made.problem = fmt.Sprintf("this node has sensu-agent, which has no probe %s: leave the node out (targets.except), or give it muster-agent", run.Probe)
	case c.RunAs != "":
		made.problem = fmt.Sprintf("this node has sensu-agent, which runs nothing as %s: leave the node out (targets.except), or give it muster-agent", c.RunAs)
	default:
		if of.ID != 0 {
			run.Env["MUSTER_NODE"] = of.name
		}
		made.ask.Command = sensuwire.Literal(lineOf(&run))
		for _, name := range slices.Sorted(maps.Keys(run.Env)) {
			made.ask.Env = append(made.ask.Env, sensuwire.Literal(name+"="+run.Env[name]))
		}
		made.ask.Hooks = hooksOf(c, &run)
		made.ask.Assets, made.problem = x.assetsOf(c)
	}
	if shared {
		r.mu.Lock()
		if r.by == nil || len(r.by) >= mostRecipes {
			r.by = map[model.ChunkID]*recipe{}
		}
		r.by[c.ID] = made
		r.mu.Unlock()
	}
	return made
}

func problemOf(err error) string {
	text := err.Error()
	if missing := (*model.MissingError)(nil); errors.As(err, &missing) {
		text += "\n  set it for all, a namespace, a group or this node (muster explain property), or write a default into the check: | default \"…\""
	}
	return text
}

// lineOf is the shell line that does what our own agent would.
func lineOf(run *model.ExpandedCommand) string {
	line := run.Shell
	if run.Argv != nil {
		words := make([]string, len(run.Argv))
		for i, word := range run.Argv {
			words[i] = quote(word)
		}
		line = strings.Join(words, " ")
	}
	if run.Stdin != "" {
		line = "printf %s " + quote(run.Stdin) + " | {\n" + line + "\n}"
	}
	return line
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func valuesOf(list []wire.Property) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(list, name, func(p wire.Property, name string) int { return strings.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return list[i].Value, list[i].Error, true
	}
}

// subject is the node that a run is about.
func (x *session) subject(j *job) model.NodeID { return cmp.Or(j.about.ID, x.node.ID) }

// ask appends the request for a run that is due and needs no secrets, as a frame; or none: the
// result was made here, because the agent cannot.
func (x *session) ask(dst []byte, j *job) []byte {
	if problem := x.cannot(j); problem != "" {
		x.say(j, problem)
		return dst
	}
	return x.request(dst, j, nil)
}

// request appends one, with secrets as they stand in it.
func (x *session) request(dst []byte, j *job, secrets []byte) []byte {
	now := x.srv.cfg.Now().Unix()
	x.Mu.Lock()
	if j.waits {
		x.srv.metrics.overdue.Inc()
	}
	j.issued, j.waits = max(now, j.issued+1), true // agents run a check once for each second
	issued := j.issued
	x.Mu.Unlock()
	x.srv.metrics.asked.Inc()
	var room [32]byte
	return wsconn.AppendFrame(dst, []byte(sensuwire.TypeCheckRequest+"\n"), j.recipe.what(x.codec), secrets, x.codec.AppendIssued(room[:0], issued))
}
