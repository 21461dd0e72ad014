package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// execution is one request that runs on its nodes.
type execution struct {
	request *request
	*task
	runs      Runs
	deadlines map[model.NodeID]time.Time // deadline of each node that is running
	out       *op.EventStream
	counts    v1.RunCounts
}

// run asks the nodes, at most task.parallel at a time, and streams their answers until all have
// ended. An error means that the reader is gone.
func (x *execution) run(ctx context.Context, allowed func() bool) error {
	x.counts.Nodes = len(x.nodes)
	beat, look := time.NewTicker(op.StreamBeat), time.NewTicker(time.Second)
	defer beat.Stop()
	defer look.Stop()
	waiting := x.nodes
	for {
		for len(waiting) > 0 && len(x.deadlines) < x.parallel {
			if err := x.askNode(waiting[0]); err != nil {
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
			err = x.answers()
		case <-look.C:
			err = x.overdue()
		case <-beat.C:
			if !allowed() {
				return x.out.End("the token is not valid any more, or its rights were changed")
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
	run, timeout := x.task.run, x.timeout
	if x.check != 0 {
		chunk := x.request.Assigned(node, x.check)
		if chunk == nil {
			return x.end(node, &v1.RunLine{Type: v1.RunRefused, Why: "the check is not assigned to this node"})
		}
		run.Chunk = chunk.ID
		if timeout == 0 {
			timeout = chunk.Timeout + answerGrace + turnGrace
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
	x.deadlines[node] = x.request.Now().Add(timeout)
	return x.line(node, &v1.RunLine{Type: v1.RunStarted})
}

// answers streams the answers that have arrived.
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

// overdue gives up nodes that passed their deadline.
func (x *execution) overdue() error {
	now := x.request.Now()
	for node, until := range x.deadlines {
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
	delete(x.deadlines, node)
	x.counts.Count(l)
	x.request.outcomes.WithLabelValues(l.Type).Inc()
	return x.line(node, l)
}

func (x *execution) line(node model.NodeID, l *v1.RunLine) error {
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
