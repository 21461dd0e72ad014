package filter

import (
	"strings"

	"github.com/dop251/goja"
)

// Bounds of one call of a built-in.
const (
	maxText   = 1 << 20  // bytes of the text and its arguments together
	maxAddend = 64 << 10 // characters on the right side of a +
	maxMatch  = 16 << 10 // characters that a regular expression looks at
	maxArray  = 10_000   // elements
	maxSort   = 1_000
	maxJoins  = 32 // arrays inside each other
)

func (s *sandbox) tooLarge(what string) {
	panic(s.runtime.NewTypeError("too large for a filter: " + what))
}

// bound replaces built-ins by such as look at their arguments first.
func (s *sandbox) bound(objects map[string]*goja.Object) {
	before := func(path, names string, look func(name string, call goja.FunctionCall)) {
		for _, name := range strings.Fields(names) {
			original, ok := goja.AssertFunction(objects[path].Get(name))
			if !ok {
				continue // length, constructor
			}
			_ = objects[path].Set(name, func(call goja.FunctionCall) goja.Value { // not frozen yet
				look(name, call)
				v, err := original(call.This, call.Arguments...)
				if err != nil {
					panic(err)
				}
				return v
			})
		}
	}
	all := allowedBuiltins()
	without := func(path, name string) string { return strings.ReplaceAll(all[path], name+" ", "") }
	before("Array.prototype", without("Array.prototype", "constructor"), s.lookArray)
	before("String.prototype", without("String.prototype", "constructor"), s.checkText)
	before("JSON", "parse", func(_ string, call goja.FunctionCall) { s.text(maxText/4, call.Argument(0)) })
	before("RegExp.prototype", "exec test", func(_ string, call goja.FunctionCall) { s.text(maxMatch, call.Argument(0)) })
	before("Function.prototype", "apply", func(_ string, call goja.FunctionCall) {
		if o, ok := call.Argument(1).(*goja.Object); ok {
			s.length(o, maxArray)
		}
	})
	_ = objects["JSON"].Set("stringify", s.stringify)
	_ = objects["Array.prototype"].Set("join", s.join)
	_ = objects["Array.prototype"].Set("toString", func(call goja.FunctionCall) goja.Value {
		return s.join(goja.FunctionCall{This: call.This})
	})
	s.boundPatterns(objects["RegExp.prototype"])
}

// addend checks the right side of every +.
func (s *sandbox) addend(call goja.FunctionCall) goja.Value {
	v := call.Argument(0)
	switch v := v.(type) {
	case *goja.Object:
		panic(s.runtime.NewTypeError("an object cannot be added: say which of its properties, or String(…)"))
	case goja.String:
		if v.Length() > maxAddend {
			s.tooLarge("the right side of +")
		}
	}
	return v
}

// text refuses texts that are longer together; objects have no known length.
func (s *sandbox) text(limit int, texts ...goja.Value) {
	sum := 0
	for _, v := range texts {
		switch v := v.(type) {
		case *goja.Object:
			panic(s.runtime.NewTypeError("a text is wanted here, not an object"))
		case goja.String:
			if sum += v.Length(); sum > limit {
				s.tooLarge("a text")
			}
		}
	}
}

// length returns the length of an array. It refuses other values and arrays longer than limit.
func (s *sandbox) length(o *goja.Object, limit int64) int64 {
	if o.ClassName() != "Array" {
		panic(s.runtime.NewTypeError("an array is wanted here"))
	}
	n := o.Get("length").ToInteger()
	if n > limit {
		s.tooLarge("an array")
	}
	return n
}

func (s *sandbox) lookArray(name string, call goja.FunctionCall) {
	this, ok := call.This.(*goja.Object)
	if !ok {
		panic(s.runtime.NewTypeError("an array is wanted here"))
	}
	if name != "sort" {
		s.length(this, maxArray)
		for _, a := range call.Arguments {
			if o, ok := a.(*goja.Object); ok && name == "concat" && o.ClassName() == "Array" {
				s.length(o, maxArray)
			}
		}
		return
	}
	n := s.length(this, maxSort)
	for i := range n {
		v := this.Get(s.runtime.ToValue(i).String())
		if _, object := v.(*goja.Object); object && len(call.Arguments) == 0 {
			panic(s.runtime.NewTypeError("objects are sorted with a function only"))
		}
		if text, ok := v.(goja.String); ok && text.Length() > maxAddend {
			s.tooLarge("a text that is sorted")
		}
	}
}

// join is Array.prototype.join that stops in time.
func (s *sandbox) join(call goja.FunctionCall) goja.Value {
	this, ok := call.This.(*goja.Object)
	if !ok {
		panic(s.runtime.NewTypeError("an array is wanted here"))
	}
	if s.depth++; s.depth > maxJoins {
		s.depth--
		s.tooLarge("arrays inside each other")
	}
	defer func() { s.depth-- }()
	separator := ","
	if v := call.Argument(0); !goja.IsUndefined(v) {
		s.text(maxAddend, v)
		separator = v.String()
	}
	var b strings.Builder
	for i := range s.length(this, maxArray) {
		if i > 0 {
			b.WriteString(separator)
		}
		if v := this.Get(s.runtime.ToValue(i).String()); v != nil && !goja.IsUndefined(v) && !goja.IsNull(v) {
			b.WriteString(v.String())
		}
		if b.Len() > maxText {
			s.tooLarge("the joined text")
		}
	}
	return s.runtime.ToValue(b.String())
}
