package filter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

// TimeLimit is how long one evaluation may take.
const TimeLimit = 100 * time.Millisecond

const maxDepth = 32 // of an event

// Run evaluates the expression over a copy of an event in Sensu's shape: maps, slices, texts, numbers and booleans. now is
// the time of seconds_since and new Date. It ends after TimeLimit, or with ctx. A value that is not a boolean is an error.
//
// A program that exceeds TimeLimit several times in a row is suspended for a while, see suspension.
func (p *Program) Run(ctx context.Context, event map[string]any, now time.Time) (answer bool, err error) {
	err = p.run(ctx, event, now, func(_ *sandbox, result, _ goja.Value) error {
		var ok bool
		answer, ok = result.Export().(bool)
		if _, object := result.(*goja.Object); object || !ok {
			answer = false
			return model.Errorf(model.Invalid, "the expression is neither true nor false but %s", kindOf(result)).
				WithHint("compare, such as: event.check.occurrences == 1")
		}
		return nil
	})
	return answer, err
}

// run calls the program's function, then take with the returned value and the event as the function changed it. It throws the
// interpreter away if the evaluation failed.
func (p *Program) run(ctx context.Context, event map[string]any, now time.Time, take func(s *sandbox, result, event goja.Value) error) (err error) {
	if err := ctx.Err(); err != nil {
		return model.Errorf(model.Unavailable, "the expression was not evaluated: %w", err)
	}
	if err := p.slow.refuses(now); err != nil {
		return err
	}
	s, _ := p.pool.Get().(*sandbox)
	if s == nil {
		if s, err = newSandbox(p.code); err != nil {
			return err
		}
	}
	defer func() {
		if r := recover(); r != nil { // a fault of the interpreter must not take the server along
			err = model.Errorf(model.Internal, "the expression broke its interpreter: %v", r)
		}
	}()
	s.now = now
	value, err := s.copied(event, 0)
	if err != nil {
		return err
	}
	limit := time.AfterFunc(TimeLimit, func() { s.runtime.Interrupt(ErrSlow) })
	ended := context.AfterFunc(ctx, func() { s.runtime.Interrupt(context.Cause(ctx)) })
	result, err := s.decide(goja.Undefined(), value)
	clean := limit.Stop()
	clean = ended() && clean // an interrupt that came too late must not hit the next evaluation
	p.slow.record(err, now)
	if err != nil {
		return failure(err)
	}
	if err := take(s, result, value); err != nil {
		return err
	}
	if clean {
		p.pool.Put(s)
	}
	return nil
}

// ErrSlow is why an evaluation came to TimeLimit, or rests because others did: of the machine, which may
// have stood still, as much as of the expression.
var ErrSlow = errors.New("it took longer than " + TimeLimit.String())

func kindOf(v goja.Value) string {
	if _, object := v.(*goja.Object); object {
		return "an object"
	}
	return fmt.Sprintf("%.40s", v.String())
}

// failure says why an evaluation ended. Nothing of the expression runs for it.
func failure(err error) error {
	var stopped *goja.InterruptedError
	var deep *goja.StackOverflowError
	var thrown *goja.Exception
	switch {
	case errors.As(err, &stopped) && stopped.Value() == ErrSlow:
		return model.Errorf(model.Limited, "the expression was stopped: %w", ErrSlow)
	case errors.As(err, &stopped):
		return model.Errorf(model.Limited, "the expression was stopped: %v", stopped.Value())
	case errors.As(err, &deep):
		return model.Errorf(model.Limited, "the expression calls itself more than %d deep", maxCalls)
	case errors.As(err, &thrown):
		o, ok := thrown.Value().(*goja.Object)
		if !ok {
			return model.Errorf(model.Invalid, "the expression failed: %s", kindOf(thrown.Value()))
		}
		if text, ok := o.Get("message").(goja.String); ok && text.Length() < 1000 {
			return model.Errorf(model.Invalid, "the expression failed: %s", text)
		}
		return model.Errorf(model.Invalid, "the expression failed with an object")
	}
	return model.Errorf(model.Invalid, "the expression failed: %w", err)
}

// copied makes values of the interpreter, so that it holds nothing of ours.
func (s *sandbox) copied(v any, depth int) (goja.Value, error) {
	if depth > maxDepth {
		return nil, model.Errorf(model.Invalid, "the event is more than %d deep, or holds itself", maxDepth)
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
			value, err := s.copied(field, depth+1)
			if err != nil {
				return nil, err
			}
			if err := o.DefineDataProperty(name, value, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE); err != nil {
				return nil, err
			}
		}
		return o, nil
	case map[string]string:
		return s.copied(wide(v), depth)
	case []any:
		return s.array(len(v), func(i int) (goja.Value, error) { return s.copied(v[i], depth+1) })
	case []string:
		return s.array(len(v), func(i int) (goja.Value, error) { return s.runtime.ToValue(v[i]), nil })
	}
	return nil, model.Errorf(model.Internal, "the event holds a %T, which expressions do not know", v)
}

func wide(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (s *sandbox) array(n int, at func(int) (goja.Value, error)) (goja.Value, error) {
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
