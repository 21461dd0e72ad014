package join

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Version is of the wire. Loaders of another one are refused: what a run measures depends
// on all of them doing the same.
const Version = 1

// Kinds of messages. F: from a follower, L: from the lead.
const (
	kindWelcome    = "welcome"    // L welcome: all have joined
	kindAsk        = "ask"        // L clock
	kindAnswer     = "answer"     // F clock
	kindPlan       = "plan"       // L plan
	kindIdentities = "identities" // L identities, as many as it takes
	kindPrepare    = "prepare"    // L: all has been sent
	kindPrepared   = "prepared"   // F prepared
	kindConnect    = "connect"    // L: agents may connect
	kindReady      = "ready"      // F load.Arrived
	kindBegin      = "begin"      // L instant, by the follower's clock
	kindPresence   = "presence"   // F load.Presence
	kindSecond     = "second"     // F observe.CheckSecond
	kindStretch    = "stretch"    // F load.Stretch
	kindScore      = "score"      // L score
	kindRenamed    = "renamed"    // L renamed
	kindMeasured   = "measured"   // F load.Measured
	kindLedgers    = "ledgers"    // F ledgers, as many as it takes
	kindFinished   = "finished"   // F: all has been sent
	kindOver       = "over"       // L over: last
	kindFailed     = "failed"     // F and L failed: last
	kindAlive      = "alive"      // F and L: nothing
	kindStop       = "stop"       // F: the run is to end its present phase, and then be compared
)

// hello is the body of the request with which a follower joins. Its fields stay in every version, so that each understands
// that another one is another one.
type hello struct {
	Version int    `json:"version"`
	Build   string `json:"build"`   // of the program, for people
	Name    string `json:"name"`    // of the machine, for people
	Machine string `json:"machine"` // equal for processes on the same one
}

type welcome struct {
	Number int `json:"number"` // from 1; the lead is 0
	Of     int `json:"of"`
}

// clock is a question about the follower's clock, and its answer.
type clock struct {
	Question uint64        `json:"question"`
	At       time.Duration `json:"at,omitempty"`
}

// plan is what a follower is to play, but for its agents' keys.
type plan struct {
	Scenario   *scenario.Scenario `json:"scenario"`
	Part       load.Part          `json:"part"`
	Server     string             `json:"server"`
	ServerTLS  string             `json:"serverTLS"`
	UIDs       []uuid.UUID        `json:"uids,omitempty"` // of all members, where they do not follow from the seed
	CA         []byte             `json:"ca,omitempty"`   // PEM
	ServerName string             `json:"serverName,omitempty"`
	MaxLag     time.Duration      `json:"maxLag"`
	Spool      int                `json:"spool"`
	Parallel   int                `json:"parallel"`
	Senders    int                `json:"senders"`
	Sources    int                `json:"sources"`
}

// identity is the key and the certificate of one agent.
type identity struct {
	Member int      `json:"member"`
	Chain  [][]byte `json:"chain"` // DER
	Key    []byte   `json:"key"`   // PKCS #8
}

type prepared struct {
	Plan string `json:"plan"` // hash
}

type instant struct {
	At time.Duration `json:"at"`
}

// score is played from an instant on, ns since the beginning.
type score struct {
	From  time.Duration `json:"from"`
	Spans []load.Span   `json:"spans"`
}

type renamed struct {
	Member int    `json:"member"`
	Name   string `json:"name"`
}

type over struct {
	OK      bool     `json:"ok"`
	Stopped bool     `json:"stopped,omitempty"` // that is all that is wrong
	Verdict []string `json:"verdict"`
}

// failed is why the run ends for one who is not to blame, or who is.
type failed struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func failure(err error) failed {
	f := failed{Class: model.ClassOf(err).Label(), Message: err.Error()}
	if e, ok := err.(*model.Error); ok {
		f.Message, f.Hint = e.Message, e.Hint
	}
	return f
}

// of is the error again; who said it goes before it.
func (f failed) of(who string) error {
	class := model.Unavailable
	for c := model.Internal; c <= model.Unsupported; c++ {
		if c.Label() == f.Class && c != model.Internal {
			class = c
		}
	}
	e := model.Errorf(class, "%s%s", who, f.Message)
	e.Hint = f.Hint
	return e
}

// decode reads the body of a message. Kinds without one have nil; kinds that do not exist are an error.
func (m *message) decode() (any, error) {
	var into any
	switch m.Kind {
	case kindWelcome:
		into = new(welcome)
	case kindAsk, kindAnswer:
		into = new(clock)
	case kindPlan:
		into = new(plan)
	case kindIdentities:
		into = new([]identity)
	case kindPrepared:
		into = new(prepared)
	case kindReady:
		into = new(load.Arrived)
	case kindBegin:
		into = new(instant)
	case kindScore:
		into = new(score)
	case kindPresence:
		into = new(load.Presence)
	case kindSecond:
		into = new(observe.CheckSecond)
	case kindStretch:
		into = new(load.Stretch)
	case kindRenamed:
		into = new(renamed)
	case kindMeasured:
		into = new(load.Measured)
	case kindLedgers:
		into = new(observe.Ledgers)
	case kindOver:
		into = new(over)
	case kindFailed:
		into = new(failed)
	case kindPrepare, kindConnect, kindFinished, kindAlive, kindStop:
		return nil, nil
	default:
		return nil, fmt.Errorf("a message of the unknown kind %q", m.Kind)
	}
	if err := json.Unmarshal(m.Body, into); err != nil {
		return nil, fmt.Errorf("a message of the kind %q: %w", m.Kind, err)
	}
	return into, nil
}
