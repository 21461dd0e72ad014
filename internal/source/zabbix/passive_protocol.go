package zabbix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// An agent answers one key per connection, and closes the connection. Agents from Zabbix 7.0 on take a request in JSON, which has
// the time-out of the item, and read the first key of its list. Earlier agents take the bare key. They answer a request in JSON as
// an unknown key.

// passiveRequest asks an agent for the value of an item.
type passiveRequest struct {
	Request string       `json:"request"`
	Data    []passiveKey `json:"data"`
}

// passiveKey is the key of an item, with the time that the agent may take.
type passiveKey struct {
	Key     string `json:"key"`
	Timeout int    `json:"timeout"` // s
}

// passiveAnswer is the value of an item, or the reason why the agent has none.
type passiveAnswer struct {
	version string // fact agentVersion; empty: the answer states none
	value   string
	reason  string // the item is unsupported
	none    bool   // the agent has no value now
}

// Errors of requests to agents.
var (
	errPlainAgent  = errors.New("the agent does not understand JSON")
	errNoAnswer    = errors.New("the agent closed the connection without an answer: name this server in Server= of its configuration")
	errNotAnAgent  = errors.New("no agent of Zabbix answers, or one that demands TLS")
	errLateAnswer  = errors.New("no answer in time")
	errShortAnswer = errors.New("the agent closed the connection before the end of its answer")
	errEmptyAnswer = errors.New("the agent's answer has no data")
)

// answerGrace is the time for an answer after the time-out of an item, at which the agent answers with a reason.
const answerGrace = time.Second

// requestItem asks an agent for the value of an item. plain means the protocol before Zabbix 7.0.
func (s *Server) requestItem(ctx context.Context, at model.ZabbixAgent, key string, plain bool) (passiveAnswer, error) {
	payload, longest := []byte(key), s.cfg.Limits.ValueBytes
	if !plain {
		payload, _ = json.Marshal(passiveRequest{"passive checks", []passiveKey{{key, int(math.Ceil(at.ItemTimeout().Seconds()))}}}) // cannot fail
		longest = 2*longest + 1024                                                                                                   // with escapes
	}
	ctx, cancel := context.WithTimeout(ctx, at.ItemTimeout()+answerGrace)
	defer cancel()
	payload, err := s.exchange(ctx, at.Endpoint(), payload, longest)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)):
		return passiveAnswer{}, errLateAnswer
	case err != nil:
		return passiveAnswer{}, err
	}
	if plain {
		return parsePlainAnswer(payload), nil
	}
	return parseJSONAnswer(payload)
}

// unreachableError is the failure to connect to an agent.
type unreachableError struct{ error }

// exchange sends a payload to an agent over a new connection, and returns the payload of the answer.
func (s *Server) exchange(ctx context.Context, address string, payload []byte, longest int) ([]byte, error) {
	c, err := s.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the address, so that equal reasons count together
		}
		if call := (*os.SyscallError)(nil); errors.As(err, &call) {
			err = call.Err
		}
		return nil, unreachableError{err}
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err = c.Write(appendFrame(nil, flagZabbix, payload)); err != nil {
		return nil, errNoAnswer
	}
	h, err := readHeader(c, longest)
	switch class := model.ClassOf(err); {
	case class == model.TooLarge:
		return nil, err
	case class == model.Invalid:
		return nil, errNotAnAgent
	case err != nil: // the end, or a reset because the agent has not read the request
		return nil, errNoAnswer
	}
	room := requestMemory{of: s.memory, all: int64(h.size + h.plain)}
	defer room.release()
	answer, err := readPayload(c, h, func(n int) error { return room.acquire(ctx, n) })
	if op := (*net.OpError)(nil); errors.Is(err, io.EOF) || errors.As(err, &op) {
		err = errShortAnswer
	}
	return answer, err
}

// notSupported begins the answer of an agent that cannot collect an item.
const notSupported = "ZBX_NOTSUPPORTED"

// parsePlainAnswer parses the answer to a bare key. It is the value, or a reason after notSupported.
func parsePlainAnswer(payload []byte) (a passiveAnswer) {
	text := string(bytes.TrimRight(payload, " \r\n"))
	reason, failed := strings.CutPrefix(text, notSupported)
	switch {
	case failed:
		a.reason = unsupportedReason(strings.Trim(reason, "\x00"))
	case text == "ZBX_ERROR":
		a.reason = "the agent failed"
	default:
		a.value = strings.TrimLeft(text, " ")
	}
	return a
}

// unsupportedReason returns the agent's reason for an unsupported item, with a limited length.
func unsupportedReason(reason string) string {
	if reason == "" || reason == notSupported {
		return "the agent does not support the item"
	}
	return model.Truncate(strings.ToValidUTF8(reason, "\uFFFD"), 1000)
}

// parseJSONAnswer parses the answer to a request in JSON. The error is errPlainAgent if the answer is no such JSON.
func parseJSONAnswer(payload []byte) (a passiveAnswer, err error) {
	var r struct {
		Version string `json:"version"`
		Variant int    `json:"variant"`
		Data    []struct {
			Value *valueText `json:"value"`
			Error *string    `json:"error"`
		} `json:"data"`
		Error string `json:"error"`
	}
	switch err := json.Unmarshal(payload, &r); {
	case err != nil || r.Version == "":
		return a, errPlainAgent
	case r.Error != "":
		return a, model.Errorf(model.Invalid, "the agent refuses the request: %s", unsupportedReason(r.Error))
	case len(r.Data) == 0:
		return a, errEmptyAnswer
	}
	a.version = factsOf(&request{Version: r.Version, Variant: r.Variant})["agentVersion"]
	switch one := r.Data[0]; {
	case one.Error != nil:
		a.reason = unsupportedReason(*one.Error)
	case one.Value == nil:
		a.none = true
	default:
		a.value = string(*one.Value)
	}
	return a, nil
}
