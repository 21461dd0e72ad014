package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
)

// Version is the version of the messages. A lead refuses loaders of other versions, because all must play the same.
const Version = 5

const (
	mostMessage     = 32 << 20  // bytes of a message
	mostOrder       = 128 << 20 // bytes of an order: a plan has the keys of all agents
	mostConnections = 1024      // of followers and strangers
	silence         = 10 * time.Second
)

// hello is the first value of a follower. Its fields stay in every version, so that a lead can name the version that it refuses.
type hello struct {
	Version int    `json:"version"`
	Build   string `json:"build"`   // of the program, for people
	Name    string `json:"name"`    // of the machine, for people
	Machine string `json:"machine"` // equal for processes on the same one
}

// order is a message from the lead to a follower. One field is set, or none to show that the lead lives.
type order struct {
	Plan    *followerPart  `json:"plan,omitempty"`    // all have joined
	Connect bool           `json:"connect,omitempty"` // agents may connect
	Begin   *time.Duration `json:"begin,omitempty"`   // of the timetable, by the clock of the lead
	Score   *score         `json:"score,omitempty"`
	Renamed *renamed       `json:"renamed,omitempty"`
	Over    *over          `json:"over,omitempty"`   // the last
	Failed  *v1.Error      `json:"failed,omitempty"` // the last
}

// message is a message from a follower to the lead. One field is set, or none to show that the follower lives.
type message struct {
	Prepared *string       `json:"prepared,omitempty"` // hash of the plan that it would play
	Arrived  *load.Joined  `json:"arrived,omitempty"`  // without number and name
	Line     *observe.Line `json:"line,omitempty"`     // of its log
	Finished bool          `json:"finished,omitempty"` // the log is complete
	Stop     bool          `json:"stop,omitempty"`     // end the present phase of the run
	Failed   *v1.Error     `json:"failed,omitempty"`   // the follower leaves; the last
}

// score is a new timetable from a time on, relative to its start.
type score struct {
	From  time.Duration `json:"from"`
	Spans []plan.Part   `json:"spans"`
}

// renamed tells a follower the new name of an agent's node.
type renamed struct {
	Member int    `json:"member"`
	Name   string `json:"name"`
}

// over tells a follower the verdict of the run.
type over struct {
	OK      bool     `json:"ok"`
	Stopped bool     `json:"stopped,omitempty"` // and nothing else is wrong
	Verdict []string `json:"verdict"`
}

// failureOf encodes an error for the other side.
func failureOf(err error) *v1.Error {
	f := &v1.Error{Status: model.ClassOf(err).HTTP(), Detail: err.Error()}
	if e := (*model.Error)(nil); errors.As(err, &e) {
		f.Detail, f.Hint = e.Message, e.Hint
	}
	return f
}

// causeOf returns the reason why a context ended, to send it to the other side.
func causeOf(ctx context.Context, who string) error {
	if e := (*model.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return model.Errorf(model.Unavailable, "%s was interrupted", who)
}

// lossOf names the reason why a connection ended.
func lossOf(err error) string {
	var e net.Error
	switch {
	case errors.As(err, &e) && e.Timeout():
		return errSilent.Error()
	case errors.Is(err, context.Canceled), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its connection was closed"
	}
	return err.Error()
}

var errSilent = fmt.Errorf("it said nothing for %s", silence)
