package filter

import (
	"strings"

	"github.com/dop251/goja"
)

// checkText checks the arguments of a method of texts.
func (s *sandbox) checkText(name string, call goja.FunctionCall) {
	if name == "toString" || name == "valueOf" {
		return
	}
	s.text(maxText, call.This)
	args := call.Arguments
	pattern := false
	if o, ok := call.Argument(0).(*goja.Object); ok && o.ClassName() == "RegExp" {
		pattern, args = true, args[1:]
		s.text(maxMatch, call.This)
	}
	s.text(maxText, append([]goja.Value{call.This}, args...)...)
	switch name {
	case "match", "search":
		if !pattern {
			panic(s.runtime.NewTypeError(name + " wants a regular expression, such as /text/"))
		}
	case "replace":
		s.lookReplace(call.This, call.Argument(1))
	}
}

// lookReplace allows as much as could become of a replacement at every character.
func (s *sandbox) lookReplace(this, by goja.Value) {
	with := by.String()
	n, m := len(this.String()), len(with)
	for _, c := range with {
		if c == '$' { // may stand for the whole text
			m += n
		}
	}
	if m > 0 && n+1 > 4*maxText/m {
		s.tooLarge("what replace would make")
	}
}

// boundPatterns replaces the built-in RegExp by one that accepts only patterns that literals may have.
func (s *sandbox) boundPatterns(prototype *goja.Object) {
	original := s.runtime.Get("RegExp")
	constructor := s.runtime.ToValue(func(call goja.ConstructorCall) *goja.Object {
		s.text(maxAddend, call.Arguments...)
		if flags := call.Argument(1); !goja.IsUndefined(flags) && strings.Trim(flags.String(), "gim") != "" {
			panic(s.runtime.NewTypeError("the flags of a regular expression are g, i and m"))
		}
		if err := checkPattern(call.Argument(0).String()); err != nil {
			panic(s.runtime.NewTypeError(err.Error()))
		}
		o, err := s.runtime.New(original, call.Arguments...)
		if err != nil {
			panic(err)
		}
		return o
	}).ToObject(s.runtime)
	_ = constructor.Set("prototype", prototype) // none of them is frozen yet
	_ = prototype.Set("constructor", constructor)
	_ = s.runtime.Set("RegExp", constructor)
}
