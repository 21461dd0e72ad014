package rules

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// maxEvaluations is the largest number of rule groups that are evaluated at a time, each of another namespace.
const maxEvaluations = 2

// evaluationTurns limits the evaluations of rule groups at a time, and shares the time between namespaces. Of those that wait, the
// namespace that has spent the least time is next. It is safe for concurrent use.
type evaluationTurns struct {
	mu      sync.Mutex
	running []*evaluationTurn
	waiting []*evaluationTurn
}

// evaluationTurn is the turn of a namespace, which waits, runs, or has ended.
type evaluationTurn struct {
	spent time.Duration // time of all evaluations of the namespace
	begun chan struct{} // closed when the turn begins
}

// maxSaved bounds the time that a namespace which evaluates seldom has spent less than the others.
const maxSaved = groupTimeout

// awaitTurn waits until the turn of a namespace begins. After an error of ctx there is no turn. A turn that runs ends first, after an
// evaluation of a given duration, and the namespace keeps it while all that wait have spent more time.
func (t *evaluationTurns) awaitTurn(ctx context.Context, own *evaluationTurn, took time.Duration) error {
	t.mu.Lock()
	own.spent += took
	t.removeLocked(own)
	others := slices.Concat(t.running, t.waiting)
	if len(others) > 0 {
		least := slices.MinFunc(others, compareSpent).spent
		own.spent = max(own.spent, least-maxSaved)
	}
	own.begun = make(chan struct{})
	t.waiting = append(t.waiting, own)
	t.startLocked()
	t.mu.Unlock()
	select {
	case <-own.begun:
		return nil
	case <-ctx.Done():
		t.endTurn(own, 0)
		return ctx.Err()
	}
}

// compareSpent orders turns by the time that their namespaces have spent.
func compareSpent(a, b *evaluationTurn) int { return cmp.Compare(a.spent, b.spent) }

// endTurn ends a namespace's turn after an evaluation of a given duration, so that another may begin.
func (t *evaluationTurns) endTurn(own *evaluationTurn, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own.spent += took
	t.removeLocked(own)
	t.startLocked()
}

// removeLocked removes a turn that runs or waits. The caller holds mu.
func (t *evaluationTurns) removeLocked(own *evaluationTurn) {
	for _, list := range []*[]*evaluationTurn{&t.running, &t.waiting} {
		*list = slices.DeleteFunc(*list, func(w *evaluationTurn) bool { return w == own })
	}
}

// startLocked begins turns while fewer than maxEvaluations run. The caller holds mu.
func (t *evaluationTurns) startLocked() {
	for len(t.running) < maxEvaluations && len(t.waiting) > 0 {
		next := slices.MinFunc(t.waiting, compareSpent)
		t.removeLocked(next)
		t.running = append(t.running, next)
		close(next.begun)
	}
}
