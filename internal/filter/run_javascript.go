package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

// TimeLimit bounds the duration of one evaluation of a filter expression.
const TimeLimit = 100 * time.Millisecond

const maxEventDepth = 32 // maps and lists inside each other in an event

// Run evaluates the compiled filter expression on a copy of a Sensu event, and returns true or false. now is
// the time of seconds_since and new Date. It ends after TimeLimit, or with ctx. A value that is not a boolean
// counts as JavaScript converts it: undefined, null, 0 and "" are false.
//
// A program that exceeds TimeLimit several times in a row is suspended for a while, see suspension.
func (p *Program) Run(ctx context.Context, event map[string]any, now time.Time) (answer bool, err error) {
	err = p.run(ctx, event, now, func(_ *sandbox, result, _ goja.Value) error {
		answer = result.ToBoolean()
		return nil
	})
	return answer, err
}

// run evaluates the program with a Sensu event or a Zabbix script's value as input. Then it calls the function
// take with the result and the input. An interpreter in which an evaluation failed is not used again.
func (p *Program) run(ctx context.Context, event any, now time.Time, take func(s *sandbox, result, event goja.Value) error) (err error) {
	if err := ctx.Err(); err != nil {
		return model.Errorf(model.Unavailable, "the expression was not evaluated: %w", err)
	}
	if err := p.slow.refuseSuspended(now); err != nil {
		return err
	}
	s, _ := p.pool.Get().(*sandbox)
	if s == nil {
		if s, err = newSandbox(p.code, p.script); err != nil {
			return err
		}
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the interpreter must not take the server along
			err = model.Errorf(model.Internal, "the expression crashed the JavaScript interpreter: %v", r)
		}
	}()
	s.now, s.seed = now, uint64(now.UnixNano())
	if p.script {
		s.runtime.SetRandSource(s.random)
	}
	s.late.Store(false)
	value, err := s.copyToJavaScript(event, 0)
	if err != nil {
		return err
	}
	if !p.script {
		s.aliasMetadata(value)
	}
	limit := time.AfterFunc(TimeLimit, func() { s.late.Store(true); s.runtime.Interrupt(ErrSlow) })
	ended := context.AfterFunc(ctx, func() { s.runtime.Interrupt(context.Cause(ctx)) })
	result, err := s.decide(goja.Undefined(), value)
	clean := limit.Stop()
	clean = ended() && clean // an interrupt that came too late must not hit the next evaluation
	p.slow.recordEvaluation(err, now)
	if err != nil {
		return explainFailure(err)
	}
	if err := take(s, result, value); err != nil {
		return err
	}
	if clean {
		p.pool.Put(s)
	}
	return nil
}

// ErrSlow is the cause of an error after a slow or suspended evaluation. A slow evaluation reached TimeLimit. The
// machine may have stood still: the expression is not proven to be slow.
var ErrSlow = errors.New("it took longer than " + TimeLimit.String())

// describeValue formats a JavaScript value for an error message.
func describeValue(v goja.Value) string {
	if _, object := v.(*goja.Object); object {
		return "an object"
	}
	return fmt.Sprintf("%.40s", v.String())
}

// explainFailure converts the error of an evaluation to a readable reason. It runs no code of the expression.
func explainFailure(err error) error {
	var stopped *goja.InterruptedError
	var deep *goja.StackOverflowError
	var thrown *goja.Exception
	switch {
	case errors.As(err, &stopped) && stopped.Value() == ErrSlow:
		return model.Errorf(model.Limited, "the expression was stopped: %w", ErrSlow)
	case errors.As(err, &stopped):
		return model.Errorf(model.Limited, "the expression was stopped: %v", stopped.Value())
	case errors.As(err, &deep):
		return model.Errorf(model.Limited, "the expression has more than %d nested calls", maxCalls)
	case errors.As(err, &thrown):
		o, ok := thrown.Value().(*goja.Object)
		if !ok {
			return model.Errorf(model.Invalid, "the expression failed: %s", describeValue(thrown.Value()))
		}
		if text, ok := o.Get("message").(goja.String); ok && text.Length() < 1000 {
			return model.Errorf(model.Invalid, "the expression failed: %s", text)
		}
		return model.Errorf(model.Invalid, "the expression threw an object without a message")
	}
	return model.Errorf(model.Invalid, "the expression failed: %w", err)
}

// copyToJavaScript copies a Go value into the JavaScript interpreter, so that expressions cannot change the event itself.
func (s *sandbox) copyToJavaScript(v any, depth int) (goja.Value, error) {
	if depth > maxEventDepth {
		return nil, model.Errorf(model.Invalid, "the event has more than %d levels of nesting, or contains itself", maxEventDepth)
	}
	switch v := v.(type) {
	case nil:
		return goja.Null(), nil
	case bool, string, int, int32, int64, uint8, uint32, float64:
		return s.runtime.ToValue(v), nil
	case uint64:
		return s.runtime.ToValue(float64(v)), nil
	case map[string]any:
		o := s.runtime.NewObject()
		for name, field := range v {
			value, err := s.copyToJavaScript(field, depth+1)
			if err != nil {
				return nil, err
			}
			if err := o.DefineDataProperty(name, value, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE); err != nil {
				return nil, err
			}
		}
		return o, nil
	case map[string]string:
		return s.copyToJavaScript(anyMap(v), depth)
	case []any:
		return s.newArray(len(v), func(i int) (goja.Value, error) { return s.copyToJavaScript(v[i], depth+1) })
	case []string:
		return s.newArray(len(v), func(i int) (goja.Value, error) { return s.runtime.ToValue(v[i]), nil })
	}
	return nil, model.Errorf(model.Internal, "the event has a value of the Go type %T, which expressions do not support", v)
}

// aliasMetadata lets expressions write event.check.name for event.check.metadata.name, as in Sensu. The same holds for
// the entity and for namespace, labels and annotations. The aliases do not appear in JSON. Labels and annotations are
// never undefined.
func (s *sandbox) aliasMetadata(event goja.Value) {
	for _, part := range []string{"entity", "check"} {
		object, ok := event.(*goja.Object).Get(part).(*goja.Object)
		if !ok {
			continue
		}
		metadata, ok := object.Get("metadata").(*goja.Object)
		if !ok {
			continue
		}
		for _, name := range []string{"name", "namespace", "labels", "annotations"} {
			value := metadata.Get(name)
			if value == nil && (name == "labels" || name == "annotations") {
				value = s.runtime.NewObject()
				_ = metadata.DefineDataProperty(name, value, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE) // a new property of a plain object
			}
			if value != nil && object.Get(name) == nil {
				_ = object.DefineDataProperty(name, value, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
			}
		}
	}
}

// anyMap converts a map with text values to the type map[string]any.
func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// newArray creates a JavaScript array with n values
func (s *sandbox) newArray(n int, at func(int) (goja.Value, error)) (goja.Value, error) {
	values := make([]any, min(n, math.MaxInt32))
	for i := range values {
		v, err := at(i)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return s.runtime.NewArray(values...), nil
}

const (
	maxSlowInARow  = 3           // evaluations in a row that may come to TimeLimit
	suspensionTime = time.Minute // duration of a suspension
)

// suspension counts a program's consecutive evaluations beyond the time limit, to suspend a slow program for a
// while. It suspends a program that is too slow several times in a row. Its events are treated as events of an
// expression that fails.
type suspension struct {
	mu         sync.Mutex
	slowInARow int       // in a row
	until      time.Time // end of the suspension
}

// refuseSuspended returns an error if the program is suspended after slow evaluations.
func (r *suspension) refuseSuspended(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.until) || now.Before(r.until.Add(-suspensionTime)) { // the clock was set back
		return nil
	}
	return model.Errorf(model.Limited, "the expression is suspended: %w %d times in a row. Next evaluation: %s",
		ErrSlow, maxSlowInARow, r.until.UTC().Format(time.TimeOnly))
}

// recordEvaluation counts consecutive evaluations of a program beyond the time limit, and suspends the program
// after several. err is the result of the last one.
func (r *suspension) recordEvaluation(err error, now time.Time) {
	var stopped *goja.InterruptedError
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.As(err, &stopped) || stopped.Value() != ErrSlow {
		r.slowInARow = 0
		return
	}
	if r.slowInARow++; r.slowInARow >= maxSlowInARow {
		r.slowInARow, r.until = maxSlowInARow-1, now.Add(suspensionTime) // one more excess suspends it again
	}
}

// MaxMutated bounds the output of a Sensu mutator, in bytes.
const MaxMutated = 1 << 20

// Mutation is a compiled Sensu mutator, which turns an event into the input of a handler. A mutator is a
// JavaScript function that computes a handler's input from an event.
type Mutation struct{ program *Program }

// CompileMutation compiles a Sensu mutator. The text is the body of a JavaScript function that changes an event.
// Variables may be undeclared. Errors say line and column.
func CompileMutation(body string, libraries ...Library) (*Mutation, error) {
	if len(body) > MaxSource {
		return nil, model.Errorf(model.TooLarge, "the mutator has %d bytes, the limit is %d", len(body), MaxSource)
	}
	p, err := compileFunction(functionHead, body, false, libraries...)
	if err != nil {
		return nil, err
	}
	return &Mutation{p}, nil
}

// Mutate runs the mutator on a Sensu event, and returns the text to send to the handler. The input is the returned
// text, another returned value as JSON, or the changed event as JSON if the mutator returns nothing or null. Program.Run and MaxMutated bound it.
func (m *Mutation) Mutate(ctx context.Context, event map[string]any, now time.Time) (body []byte, err error) {
	err = m.program.run(ctx, event, now, func(s *sandbox, result, event goja.Value) error {
		if text, ok := result.(goja.String); ok {
			if text.Length() > MaxMutated {
				return model.Errorf(model.TooLarge, "the mutator returned more than %d bytes", MaxMutated)
			}
			body = []byte(text.String())
			return nil
		}
		if goja.IsUndefined(result) || goja.IsNull(result) {
			result = event
		}
		body, err = s.encodeJSON(result)
		return err
	})
	return body, err
}

// encodeJSON encodes a JavaScript value as JSON in Go, so that no code of the expression runs.
func (s *sandbox) encodeJSON(v goja.Value) ([]byte, error) {
	room := MaxMutated
	plain, err := s.copyFromJavaScript(v, 0, &room)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "the mutator's output is not JSON: %w", err)
	}
	return text, nil
}

// copyFromJavaScript copies a JavaScript value to a Go value, converted by the rules of JSON.stringify. It does
// not call the script's toJSON. room is the approximate number of bytes that the output may still have.
func (s *sandbox) copyFromJavaScript(v goja.Value, depth int, room *int) (any, error) {
	if depth > maxEventDepth {
		return nil, model.Errorf(model.Invalid, "the value has more than %d levels of nesting, or contains itself", maxEventDepth)
	}
	if *room -= 8; *room < 0 {
		return nil, model.Errorf(model.TooLarge, "the value as JSON would have more than %d bytes", MaxMutated)
	}
	o, ok := v.(*goja.Object)
	switch {
	case v == nil || goja.IsUndefined(v) || goja.IsNull(v):
		return nil, nil
	case !ok:
		if text, ok := v.(goja.String); ok {
			if *room -= text.Length(); *room < 0 {
				return nil, model.Errorf(model.TooLarge, "the value as JSON would have more than %d bytes", MaxMutated)
			}
			return text.String(), nil
		}
		plain := v.Export()
		if f, ok := plain.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, nil
		}
		return plain, nil
	}
	switch o.ClassName() {
	case "Function":
		return nil, nil
	case "Date":
		if at, ok := o.Export().(time.Time); ok {
			return at.UTC().Format("2006-01-02T15:04:05.000Z"), nil
		}
		return nil, nil
	case "Array":
		n := o.Get("length").ToInteger()
		if n > maxArray {
			return nil, model.Errorf(model.TooLarge, "the array has %d elements, the limit is %d", n, maxArray)
		}
		list := make([]any, n)
		for i := range list {
			var err error
			if list[i], err = s.copyFromJavaScript(o.Get(s.runtime.ToValue(i).String()), depth+1, room); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	out := map[string]any{}
	for _, name := range o.Keys() {
		field := o.Get(name)
		if f, ok := field.(*goja.Object); ok && f.ClassName() == "Function" || goja.IsUndefined(field) {
			continue
		}
		*room -= len(name)
		plain, err := s.copyFromJavaScript(field, depth+1, room)
		if err != nil {
			return nil, err
		}
		out[name] = plain
	}
	return out, nil
}

// boundedStringify replaces JSON.stringify by a function that limits the length of the output.
func (s *sandbox) boundedStringify(call goja.FunctionCall) goja.Value {
	v := call.Argument(0)
	if f, ok := v.(*goja.Object); ok && f.ClassName() == "Function" || goja.IsUndefined(v) {
		return goja.Undefined()
	}
	text, err := s.encodeJSON(v)
	if err != nil {
		panic(s.runtime.NewTypeError("JSON.stringify: " + err.Error()))
	}
	return s.runtime.ToValue(string(text))
}
