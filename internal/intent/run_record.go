package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// runKind is the kind of rows whose changes record the runs that people ordered. The row named run is empty; every
// other row is an action that has begun and not ended.
const runKind = "run"

// openRun is the body of an action's row.
type openRun struct {
	By       Actor  // By.Why names the action
	Picked   string // its size, for people
	Revision int64  // of the record of its begin
}

// Runs records the runs that people order on nodes.
type Runs struct{ *repository }

// RecordRun records a run before it is sent; by.Why describes it.
func (s *Runs) RecordRun(ctx context.Context, by Actor) error {
	_, err := s.commit(ctx, by, []Write{{Key: Key{Kind: runKind, Name: "run"}, Body: []byte("{}"), Expect: -1}})
	return err
}

// BeginRun records the beginning of a long action: by.Why names it, picked its size, note more about it. The caller
// calls ended with the outcome; without that, CloseInterruptedRuns closes the record at the next start.
func (s *Runs) BeginRun(ctx context.Context, by Actor, picked, note string) (ended func(came string) error, err error) {
	key := Key{Kind: runKind, Name: uuid.NewString()}
	of := openRun{By: by, Picked: picked}
	body, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("BUG: %w", err)
	}
	by.Why += ": " + picked + note
	done, err := s.commit(ctx, by, []Write{{Key: key, Body: body}})
	if err != nil {
		return nil, err
	}
	of.Revision = done.Revision
	ctx = context.WithoutCancel(ctx) // whoever asked may be gone
	return func(came string) error {
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		return s.closeRun(ctx, key, of, "to its end", came)
	}, nil
}

// closeTimeout bounds the record of an end.
const closeTimeout = 30 * time.Second

func (s *Runs) closeRun(ctx context.Context, key Key, of openRun, how, came string) error {
	by := of.By
	by.Why = fmt.Sprintf("%s %s (revision %d): %s", of.By.Why, how, of.Revision, came)
	_, err := s.commit(ctx, by, []Write{{Key: key, Expect: -1}})
	return err
}

// CloseInterruptedRuns records of each open action that the server ended before its outcome was recorded. Call it
// before anybody can begin one.
func (s *Runs) CloseInterruptedRuns(ctx context.Context) error {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: runKind})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Name == "run" {
			continue
		}
		of := openRun{By: serverActor("something")}
		if err := json.Unmarshal(row.Body, &of); err != nil {
			return fmt.Errorf("read %s: %w", row.Key, err)
		}
		of.Revision = row.Revision
		came := "of " + of.Picked + " some may be left, because the server ended before it had recorded the end; type it again, it picks what there is left to do (--dry-run shows that)"
		if err := s.closeRun(ctx, row.Key, of, "perhaps not to its end", came); err != nil {
			return err
		}
		s.opts.Logger.Warn("the server ended in the middle of what somebody had begun; it may be typed again", "user", of.By.User, "what", of.By.Why, "of", of.Picked, "revision", of.Revision)
	}
	return nil
}
