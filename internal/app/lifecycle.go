package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// component is a part of the server. open makes it, registers its tasks and its close function with the lifecycle.
type component struct {
	name string
	open func(context.Context) error
}

// stage is the part of a stop in which a task ends.
type stage int

// Stages, in the order in which a stop ends them.
const (
	front     stage = iota // accepts connections and gives work: ends first
	back                   // works off accepted data: ends when the agents have been sent away
	reactions              // records transitions: ends when all tasks of back have ended, for the last snapshots wait for it
)

// task runs until the context of its stage ends.
type task struct {
	name  string
	stage stage
	run   func(context.Context) error
}

// lifecycle holds the tasks and close functions of the components that are open, in the order of opening.
type lifecycle struct {
	tasks   []task
	closers []func() error
}

// task registers a function that Run starts. It must return when its context ends.
func (l *lifecycle) task(at stage, name string, run func(context.Context) error) {
	l.tasks = append(l.tasks, task{name, at, run})
}

// onClose registers a function that Close calls after those registered later.
func (l *lifecycle) onClose(fn func() error) { l.closers = append(l.closers, fn) }

// close calls the close functions in reverse order.
func (l *lifecycle) close() error {
	var errs []error
	for _, fn := range slices.Backward(l.closers) {
		errs = append(errs, fn())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// stages runs the tasks of a lifecycle.
type stages struct {
	group     *errgroup.Group
	contexts  [3]context.Context
	stopFront context.CancelFunc
	stopBack  context.CancelFunc
	accepted  sync.WaitGroup // tasks of back that have not ended
}

// newStages derives the contexts of the stages. The front ends with ctx; a task that fails ends the front and the back.
func newStages(ctx context.Context, tasks []task) *stages {
	s := &stages{}
	for _, t := range tasks {
		if t.stage == back {
			s.accepted.Add(1)
		}
	}
	var stopReactions context.CancelFunc
	s.contexts[back], s.stopBack = context.WithCancel(context.WithoutCancel(ctx))
	s.group, s.contexts[back] = errgroup.WithContext(s.contexts[back])
	s.contexts[front], s.stopFront = context.WithCancel(ctx)
	context.AfterFunc(s.contexts[back], s.stopFront)
	s.contexts[reactions], stopReactions = context.WithCancel(context.WithoutCancel(ctx))
	s.group.Go(func() error {
		<-s.contexts[back].Done()
		s.accepted.Wait()
		stopReactions()
		return nil
	})
	return s
}

// start starts the tasks of a stage.
func (s *stages) start(at stage, tasks []task) {
	for _, t := range tasks {
		if t.stage != at {
			continue
		}
		s.group.Go(func() error {
			if at == back {
				defer s.accepted.Done()
			}
			if err := t.run(s.contexts[at]); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			return nil
		})
	}
}
