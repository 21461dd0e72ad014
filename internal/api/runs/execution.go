package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// running is one request on its way: so many nodes at a time, until all have ended.
type execution struct {
	request *request
	*order
	runs   Runs
	until  map[model.NodeID]time.Time // those that run, and how long their end is waited for
	out    *op.EventStream
	counts v1.RunCounts
}

// all asks one node after the other and writes what they answer. An error says that nobody
// reads any more.
func (x *execution) all(ctx context.Context, authorization string) error {
	s := x.request
	x.counts.Nodes = len(x.nodes)
	beat, look := time.NewTicker(op.StreamBeat), time.NewTicker(time.Second)
	defer beat.Stop()
	defer look.Stop()
	waiting := x.nodes
	for {
		for len(waiting) > 0 && len(x.until) < x.parallel {
			if err := x.askNode(waiting[0]); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
		if len(waiting) == 0 && len(x.until) == 0 {
			return x.out.Send("", &v1.RunLine{Type: v1.RunSummary, Summary: &x.counts})
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.runs.Wake():
			err = x.answers()
		case <-look.C:
			err = x.overdue()
		case <-beat.C:
			c := access.CallerOf(ctx)
			now, bad := s.Access.Authenticate(strings.TrimPrefix(authorization, "Bearer "))
			if bad != nil || !now.Equal(&c.Grants) {
				return x.out.Write("event: end\n: the token is not valid any more, or its rights were changed\n\n")
			}
			err = x.out.Write(":\n\n")
		}
		if err != nil {
			return err
		}
	}
}

// askNode asks one node.
func (x *execution) askNode(node model.NodeID) error {
	run, within := x.run, x.within
	if x.check != 0 {
		chunk := x.request.Assigned(node, x.check)
		if chunk == nil {
			return x.end(node, &v1.RunLine{Type: v1.RunRefused, Why: "the check is not assigned to this node"})
		}
		run.Chunk = chunk.ID
		if within == 0 {
			within = chunk.Timeout + answerWithin + turnWithin
		}
	}
	if err := x.runs.Ask(node, run); err != nil {
		var said *model.Error
		line := &v1.RunLine{Type: v1.RunRefused, Why: err.Error()}
		if errors.As(err, &said) {
			line.Why = said.Message
			if said.Class == model.NotFound {
				line.Type = v1.RunLost
			}
		}
		return x.end(node, line)
	}
	x.until[node] = x.request.Now().Add(within)
	return x.line(node, &v1.RunLine{Type: v1.RunStarted})
}

// answers writes what has come.
func (x *execution) answers() error {
	for {
		a, ok := x.runs.Next()
		if !ok {
			return nil
		}
		if len(a.Output) > 0 {
			if err := x.line(a.Node, &v1.RunLine{Type: v1.RunOutput, Output: string(a.Output)}); err != nil {
				return err
			}
		}
		if !a.Done {
			continue
		}
		line := &v1.RunLine{Type: v1.RunDone, Status: &a.Status, DurationMs: a.Duration.Milliseconds(), Cut: a.Cut}
		switch {
		case a.Lost != "":
			line = &v1.RunLine{Type: v1.RunLost, Why: a.Lost}
		case a.Refused != "":
			line = &v1.RunLine{Type: v1.RunRefused, Why: a.Refused}
		}
		if err := x.end(a.Node, line); err != nil {
			return err
		}
	}
}

// overdue gives up what does not answer.
func (x *execution) overdue() error {
	now := x.request.Now()
	for node, until := range x.until {
		if now.After(until) {
			x.runs.Forget(node)
			if err := x.end(node, &v1.RunLine{Type: v1.RunLost, Why: "no answer in time: the check waits for its turn there"}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *execution) end(node model.NodeID, l *v1.RunLine) error {
	delete(x.until, node)
	x.counts.Count(l)
	x.request.outcomes.WithLabelValues(l.Type).Inc()
	return x.line(node, l)
}

func (x *execution) line(node model.NodeID, l *v1.RunLine) error {
	namespace, name, ok := x.request.Directory.NodeName(node)
	switch {
	case !ok:
		name = fmt.Sprintf("node %d", node) // deleted meanwhile
	case x.several:
		name = namespace + "/" + name
	}
	l.Node = name
	return x.out.Send("", l)
}
