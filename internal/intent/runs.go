package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// runKind is that of rows whose changes are the record of what people ran. The row called run says
// nothing; each other is of something that has begun and not ended.
const runKind = "run"

// begun is the body of a row of what has begun.
type begun struct {
	By       Actor  // who ran it; Why is what, in short
	Picked   string // how much of it there was to do
	Revision int64  // of the record of its begin
}

// RecordRun records who ran what where, before it is sent: by.Why says it, for people.
func (s *Service) RecordRun(ctx context.Context, by Actor) error {
	_, err := s.commit(ctx, by, []Write{{Key: Key{Kind: runKind, Name: "run"}, Body: []byte("{}"), Expect: -1}})
	return err
}

// BeginRun records that somebody begins what takes a while: by.Why is what, in short, picked how much
// there is to do, and note what is said of it. ended records what became of it; while nobody has called it, CutRuns finds it.
func (s *Service) BeginRun(ctx context.Context, by Actor, picked, note string) (ended func(came string) error, err error) {
	key := Key{Kind: runKind, Name: uuid.NewString()}
	of := begun{By: by, Picked: picked}
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
		ctx, cancel := context.WithTimeout(ctx, endWithin)
		defer cancel()
		return s.endRun(ctx, key, of, "to its end", came)
	}, nil
}

// endWithin is how long the record of an end may take.
const endWithin = 30 * time.Second

func (s *Service) endRun(ctx context.Context, key Key, of begun, how, came string) error {
	by := of.By
	by.Why = fmt.Sprintf("%s %s (revision %d): %s", of.By.Why, how, of.Revision, came)
	_, err := s.commit(ctx, by, []Write{{Key: key, Expect: -1}})
	return err
}

// CloseInterruptedRuns records of all whose end is not recorded that this server did not live to see it. Call it before
// anybody can begin something.
func (s *Service) CloseInterruptedRuns(ctx context.Context) error {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: runKind})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Name == "run" {
			continue
		}
		of := begun{By: server("something")}
		if err := json.Unmarshal(row.Body, &of); err != nil {
			return fmt.Errorf("read %s: %w", row.Key, err)
		}
		of.Revision = row.Revision
		came := "of " + of.Picked + " some may be left, because the server ended before it had recorded the end; type it again, it picks what there is left to do (--dry-run shows that)"
		if err := s.endRun(ctx, row.Key, of, "perhaps not to its end", came); err != nil {
			return err
		}
		s.opts.Logger.Warn("the server ended in the middle of what somebody had begun; it may be typed again", "user", of.By.User, "what", of.By.Why, "of", of.Picked, "revision", of.Revision)
	}
	return nil
}
