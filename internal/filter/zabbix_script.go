package filter

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

// MaxScript bounds the source of one Zabbix script, in bytes.
const MaxScript = 64 << 10

// scriptHead is the JavaScript text in front of a script. It makes the script the body of a function. It is as long as
// functionHead.
const scriptHead = `(function(value){"use strict";`

// Script is a compiled Zabbix preprocessing script. The script is the body of a JavaScript function of a value.
type Script struct{ program *Program }

// CompileScript compiles a Zabbix preprocessing script. The text is the body of a JavaScript function whose parameter
// is named value. Variables may be undeclared. Errors say line and column.
func CompileScript(body string) (*Script, error) {
	if len(body) > MaxScript {
		return nil, model.Errorf(model.TooLarge, "the script has %d bytes, the limit is %d", len(body), MaxScript)
	}
	p, err := compileFunction(scriptHead, body, false)
	if err != nil {
		return nil, err
	}
	p.script = true
	return &Script{p}, nil
}

// Run calls a Zabbix preprocessing script with an item's value, and returns the new value. ok is false if it
// returns null. Program.Run bounds it, and MaxMutated for the returned text; a run that takes too long is
// repeated once. Math.random depends on now only, so that a run can be repeated.
func (s *Script) Run(value string, now time.Time) (text string, ok bool, err error) {
	take := func(_ *sandbox, result, _ goja.Value) error {
		if _, object := result.(*goja.Object); object {
			return model.Errorf(model.Invalid, "the script returned an object, not a text: return JSON.stringify(…) of the object")
		}
		switch {
		case goja.IsUndefined(result):
			return model.Errorf(model.Invalid, "the script returned undefined: expected a text, number, boolean or null")
		case goja.IsNull(result):
			return nil
		}
		if t, isText := result.(goja.String); isText && t.Length() > MaxMutated {
			return model.Errorf(model.TooLarge, "the script returned more than %d bytes", MaxMutated)
		}
		text, ok = strings.Clone(result.String()), true
		return nil
	}
	for range 2 { // the machine may have stood still
		if err = s.program.run(context.Background(), value, now, take); !errors.Is(err, ErrSlow) {
			break
		}
	}
	return text, ok, err
}

// addZabbixFunctions adds the functions without side effects that Zabbix offers to JavaScript preprocessing
// scripts. These are btoa, atob, md5, sha256 and Zabbix.log or Zabbix.Log, which do nothing. It returns the
// object Zabbix.
func (s *sandbox) addZabbixFunctions(global *goja.Object) *goja.Object {
	for name, f := range map[string]func(string) (string, error){
		"btoa": func(text string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(text)), nil },
		"atob": func(text string) (string, error) {
			data, err := base64.StdEncoding.DecodeString(text)
			return strings.ToValidUTF8(string(data), "\ufffd"), err
		},
		"md5":    func(text string) (string, error) { return fmt.Sprintf("%x", md5.Sum([]byte(text))), nil },
		"sha256": func(text string) (string, error) { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))), nil },
	} {
		_ = global.Set(name, func(call goja.FunctionCall) goja.Value { // not frozen yet
			s.checkLength(maxText, call.Argument(0))
			out, err := f(call.Argument(0).String())
			if err != nil {
				panic(s.runtime.NewTypeError(name + ": " + err.Error()))
			}
			return s.runtime.ToValue(out)
		})
	}
	zabbix := s.runtime.NewObject()
	for _, name := range [...]string{"log", "Log"} {
		_ = zabbix.Set(name, func(goja.FunctionCall) goja.Value { return goja.Undefined() })
	}
	_ = global.Set("Zabbix", zabbix)
	return zabbix
}

// random returns the next repeatable pseudo-random number from 0 to 1, for Math.random in scripts.
func (s *sandbox) random() float64 {
	s.seed += 0x9e3779b97f4a7c15
	x := s.seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}
