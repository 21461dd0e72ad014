package filter

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

// MaxMutated bounds the output of a mutation, in bytes.
const MaxMutated = 1 << 20

// Mutation is a compiled mutator: the body of a function of event.
type Mutation struct{ program *Program }

// CompileMutation reads the body of a function of event. Errors say line and column.
func CompileMutation(body string, libraries ...Library) (*Mutation, error) {
	if len(body) > MaxSource {
		return nil, model.Errorf(model.TooLarge, "the mutator has %d bytes, %d are allowed", len(body), MaxSource)
	}
	p, err := compile(body, false, libraries...)
	if err != nil {
		return nil, err
	}
	return &Mutation{p}, nil
}

// Mutate returns the input of a handler for an event: the text that the function returns, another returned value as JSON, or
// without a value the event as the function changed it, as JSON. Its bounds are those of Program.Run and MaxMutated.
func (m *Mutation) Mutate(ctx context.Context, event map[string]any, now time.Time) (body []byte, err error) {
	err = m.program.run(ctx, event, now, func(s *sandbox, result, event goja.Value) error {
		if text, ok := result.(goja.String); ok {
			if text.Length() > MaxMutated {
				return model.Errorf(model.TooLarge, "the mutator returned more than %d bytes", MaxMutated)
			}
			body = []byte(text.String())
			return nil
		}
		if goja.IsUndefined(result) {
			result = event
		}
		body, err = s.json(result)
		return err
	})
	return body, err
}

// json writes a value of the interpreter; nothing of the program runs for it.
func (s *sandbox) json(v goja.Value) ([]byte, error) {
	room := MaxMutated
	plain, err := s.plain(v, 0, &room)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "what the mutator made is no JSON: %w", err)
	}
	return text, nil
}

// plain copies a value out of the interpreter as JSON.stringify does, without calling toJSON. room is the number of bytes
// that remain, about.
func (s *sandbox) plain(v goja.Value, depth int, room *int) (any, error) {
	if depth > maxDepth {
		return nil, model.Errorf(model.Invalid, "it is more than %d deep, or holds itself", maxDepth)
	}
	if *room -= 8; *room < 0 {
		return nil, model.Errorf(model.TooLarge, "it would have more than %d bytes", MaxMutated)
	}
	o, ok := v.(*goja.Object)
	switch {
	case v == nil || goja.IsUndefined(v) || goja.IsNull(v):
		return nil, nil
	case !ok:
		if text, ok := v.(goja.String); ok {
			if *room -= text.Length(); *room < 0 {
				return nil, model.Errorf(model.TooLarge, "it would have more than %d bytes", MaxMutated)
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
			return nil, model.Errorf(model.TooLarge, "an array of %d elements, %d are allowed", n, maxArray)
		}
		list := make([]any, n)
		for i := range list {
			var err error
			if list[i], err = s.plain(o.Get(s.runtime.ToValue(i).String()), depth+1, room); err != nil {
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
		plain, err := s.plain(field, depth+1, room)
		if err != nil {
			return nil, err
		}
		out[name] = plain
	}
	return out, nil
}

// stringify is JSON.stringify of one value, bounded; other arguments mean nothing here.
func (s *sandbox) stringify(call goja.FunctionCall) goja.Value {
	v := call.Argument(0)
	if f, ok := v.(*goja.Object); ok && f.ClassName() == "Function" || goja.IsUndefined(v) {
		return goja.Undefined()
	}
	text, err := s.json(v)
	if err != nil {
		panic(s.runtime.NewTypeError("JSON.stringify: " + err.Error()))
	}
	return s.runtime.ToValue(string(text))
}
