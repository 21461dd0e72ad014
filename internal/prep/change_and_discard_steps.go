package prep

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// compileSimpleChange compiles the step simpleChange, which outputs the difference to the last value. The first value
// and a value below the last one (a counter that began again) give none.
func compileSimpleChange(_ []string, t item.Type) (stepFunc, error) {
	return func(v item.Value, at int64, m *rememberedValue, _ *ParsedValue) (item.Value, error) {
		n, err := typedNumber(v, t)
		if err != nil {
			return n, fmt.Errorf("cannot calculate delta (simple change) for value of type %q: %w", kindName(v), err)
		}
		last := *m
		*m = rememberedValue{at: at, value: n}
		diff, ok := difference(n, last.value)
		if !ok {
			return item.Value{}, nil
		}
		return diff, nil
	}, nil
}

// compileChangePerSecond compiles the step changePerSecond, which outputs the difference to the last value per second.
// Two integers give an integer. A value that is not newer than the last one gives none.
func compileChangePerSecond(_ []string, t item.Type) (stepFunc, error) {
	return func(v item.Value, at int64, m *rememberedValue, _ *ParsedValue) (item.Value, error) {
		n, err := typedNumber(v, t)
		if err != nil {
			return n, fmt.Errorf("cannot calculate delta (speed per second) for value of type %q: %w", kindName(v), err)
		}
		last := *m
		*m = rememberedValue{at: at, value: n}
		diff, ok := difference(n, last.value)
		if !ok || at <= last.at {
			return item.Value{}, nil
		}
		perSecond := diff.Float() / (float64(at-last.at) / 1e9)
		if diff.Kind() == item.UnsignedValue {
			if whole, ok := truncate(perSecond); ok {
				return item.FromUnsigned(whole), nil
			}
		}
		return item.FromFloat(perSecond), nil
	}, nil
}

// difference subtracts the last value from a new value, but returns no value after a decrease. It returns false
// if last is no number or is above v.
func difference(v, last item.Value) (item.Value, bool) {
	if last.Kind() == item.None {
		return item.Value{}, false
	}
	if v.Kind() == item.UnsignedValue && last.Kind() == item.UnsignedValue {
		return item.FromUnsigned(v.Unsigned() - last.Unsigned()), v.Unsigned() >= last.Unsigned()
	}
	return item.FromFloat(v.Float() - last.Float()), v.Float() >= last.Float()
}

// compileDiscardUnchanged compiles the step discardUnchanged, which discards a value equal to the last value
func compileDiscardUnchanged(_ []string, _ item.Type) (stepFunc, error) {
	return discardUnchanged(math.MaxInt64), nil
}

// compileDiscardUnchangedHeartbeat compiles the step discardUnchangedHeartbeat, which discards repeated values except
// one per period. It passes one value after each heartbeat period.
func compileDiscardUnchangedHeartbeat(params []string, _ item.Type) (stepFunc, error) {
	heartbeat, ok := parseSeconds(params[0])
	if !ok || heartbeat < time.Second || heartbeat > 25*365*24*time.Hour {
		return nil, model.Errorf(model.Invalid, "%q is not a time from 1s to 25y", params[0]).WithHint("write seconds, or a number with s, m, h, d, w, M or y: 1h")
	}
	return discardUnchanged(heartbeat), nil
}

// discardUnchanged returns a step that discards repeated values, except after each heartbeat period. As in Zabbix, the
// period counts whole seconds, so that a value a moment early is not late by an interval.
func discardUnchanged(heartbeat time.Duration) stepFunc {
	return func(v item.Value, at int64, m *rememberedValue, _ *ParsedValue) (item.Value, error) {
		now := comparableForm(v)
		if sameValue(m.value, now) && time.Duration(at/int64(time.Second)-m.at/int64(time.Second)) < heartbeat/time.Second {
			return item.Value{}, nil
		}
		m.at = at
		if now != m.value {
			if now.Kind() == item.TextValue {
				now = item.FromText(strings.Clone(now.String())) // the value may be part of a large buffer
			}
			m.value = now
		}
		return v, nil
	}
}

// maxRemembered is the greatest length, in bytes, of a text that a step remembers whole. Of longer ones a digest is.
const maxRemembered = 64

// comparableForm converts a value to a normal form, so that equal values become identical. The form is a number, a
// short text, or the digest of a long text.
func comparableForm(v item.Value) item.Value {
	if n, ok := number(v); ok {
		return n
	}
	if text := v.String(); len(text) > maxRemembered {
		sum := sha256.Sum256([]byte(text))
		return item.FromText("\xff" + string(sum[:]))
	}
	return v
}

// sameValue reports whether two values are equal, after comparableForm has converted both. comparableForm has
// converted both.
func sameValue(a, b item.Value) bool {
	if a.Kind() == b.Kind() {
		return a == b || a.Kind() == item.FloatValue && a.Float() == b.Float()
	}
	return a.Kind() != item.None && a.Kind() != item.TextValue && b.Kind() != item.TextValue && a.Float() == b.Float()
}

// parseSeconds parses a period of Zabbix, such as 90 or 5m. The units are s, m, h, d, w, M (30 days) and y (365 days).
func parseSeconds(s string) (time.Duration, bool) {
	unit := time.Second
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 's':
		case 'm':
			unit = time.Minute
		case 'h':
			unit = time.Hour
		case 'd':
			unit = 24 * time.Hour
		case 'w':
			unit = 7 * 24 * time.Hour
		case 'M':
			unit = 30 * 24 * time.Hour
		case 'y':
			unit = 365 * 24 * time.Hour
		default:
			s += "s"
		}
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || int64(n) > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
