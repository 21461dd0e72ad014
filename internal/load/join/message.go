package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
)

// Version is the version of the messages. A lead refuses loaders of other versions, because all must play the same.
const Version = 3

const (
	mostMessage     = 32 << 20 // bytes, of an order too
	mostConnections = 1024     // of followers and strangers
	silence         = 10 * time.Second
	aliveEvery      = time.Second
	loaderHeader    = "Muster-Loader" // the id of the follower that reports
)

// hello is the body of POST /join. Its fields stay in every version, so that a lead can name the version that it refuses.
type hello struct {
	Version int    `json:"version"`
	Build   string `json:"build"`   // of the program, for people
	Name    string `json:"name"`    // of the machine, for people
	Machine string `json:"machine"` // equal for processes on the same one
	ID      string `json:"id"`      // random
}

// order is a message from the lead to a follower. One field is set; a message without fields shows that the lead lives.
type order struct {
	Welcome    *welcome       `json:"welcome,omitempty"` // all have joined
	Plan       *followerPart  `json:"plan,omitempty"`
	Identities []identity     `json:"identities,omitempty"`
	Prepare    bool           `json:"prepare,omitempty"` // plan and identities are complete
	Connect    bool           `json:"connect,omitempty"` // agents may connect
	Begin      *time.Duration `json:"begin,omitempty"`   // of the timetable, by the clock of the lead
	Score      *score         `json:"score,omitempty"`
	Renamed    *renamed       `json:"renamed,omitempty"`
	Over       *over          `json:"over,omitempty"`   // the last
	Failed     *failure       `json:"failed,omitempty"` // the last
}

// message is a message from a follower to the lead. One field is set; a message without fields shows that the follower
// lives.
type message struct {
	Clock    *time.Duration `json:"clock,omitempty"`    // uncertainty of its clock
	Prepared *string        `json:"prepared,omitempty"` // hash of the plan that it would play
	Arrived  *load.Arrived  `json:"arrived,omitempty"`
	Lines    []observe.Line `json:"lines,omitempty"`    // of its log
	Finished bool           `json:"finished,omitempty"` // the log is complete
	Stop     bool           `json:"stop,omitempty"`     // end the present phase of the run
	Failed   *failure       `json:"failed,omitempty"`
}

// welcome tells a follower its number after all have joined.
type welcome struct {
	Number int `json:"number"` // from 1; the lead is 0
	Of     int `json:"of"`
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

// failure is an encoded error for the other side.
type failure struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// newFailure encodes an error for the other side.
func newFailure(err error) *failure {
	f := &failure{Class: model.ClassOf(err).Label(), Message: err.Error()}
	var e *model.Error
	if errors.As(err, &e) {
		f.Message, f.Hint = e.Message, e.Hint
	}
	return f
}

// from returns the error, with its origin in front.
func (f *failure) from(origin string) error {
	class := model.Unavailable
	for c := model.Internal + 1; c <= model.Unsupported; c++ {
		if c.Label() == f.Class {
			class = c
		}
	}
	e := model.Errorf(class, "%s%s", origin, f.Message)
	e.Hint = f.Hint
	return e
}

// peerFailure is the failure that a follower reported.
type peerFailure struct{ *failure }

func (p *peerFailure) Error() string { return p.Message }

// decode reads one message of the other side.
func decode[T hello | message | failure](r io.Reader) (m T, err error) {
	err = json.NewDecoder(r).Decode(&m)
	return m, err
}

// decodeFailure reads the body of a refusal, or returns nil without one.
func decodeFailure(r io.Reader) *failure {
	f, err := decode[failure](io.LimitReader(r, mostMessage))
	if err != nil || f.Message == "" {
		return nil
	}
	return &f
}

// lossOf names the reason why a connection ended.
func lossOf(err error) string {
	var e net.Error
	if errors.As(err, &e) && e.Timeout() {
		return "it said nothing for " + silence.String()
	}
	if errors.Is(err, context.Canceled) {
		return "its connection was closed"
	}
	return err.Error()
}

var errSilent = fmt.Errorf("it said nothing for %s", silence)
