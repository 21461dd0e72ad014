package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// period is --since and --until.
type period struct{ since, until string }

// declare adds the flags; lists names the lists that take them, and is empty where all do.
func (p *period) declare(flags *pflag.FlagSet, since, lists string) {
	flags.StringVar(&p.since, "since", since, lists+"begin: an age such as 24h, or a time such as 2026-12-24T18:00:00Z")
	flags.StringVar(&p.until, "until", "", lists+"end, written as --since; default now")
}

func (p *period) read(now time.Time) (since, until time.Time, err error) {
	if since, err = parsePast("since", p.since, now); err != nil {
		return since, until, err
	}
	if until, err = parsePast("until", p.until, now); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, model.Errorf(model.Invalid, "--since %s is not before --until %s", p.since, p.until).WithHint("ages count back from now. Yesterday is: --since 2d --until 1d")
	}
	return since, until, nil
}

// parsePast reads a time, or an age as the time so long before now.
func parsePast(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := model.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-time.Duration(d)), nil
	}
	quoted, _ := json.Marshal(text)
	var t model.Time
	if t.UnmarshalJSON(quoted) != nil {
		return time.Time{}, model.Errorf(model.Invalid, "--%s %q is no time", flag, text).WithHint("an age: 90m, 24h, 7d; or a time: %s", now.UTC().Format(time.RFC3339))
	}
	return t.Time, nil
}

// parseTime reads a time of day (the next one after a time), a date with a time in the user's zone,
// or either with an offset.
func (s *session) parseTime(text string, after time.Time) (time.Time, error) {
	if at, err := time.ParseInLocation("15:04", text, s.Zone); err == nil {
		y, m, d := after.In(s.Zone).Date()
		for {
			if at = time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, s.Zone); at.After(after) {
				return at, nil
			}
			d++
		}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04Z07:00", "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime} {
		if at, err := time.ParseInLocation(form, text, s.Zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, model.Errorf(model.Invalid, "%q is no time", text).WithHint("18:00, \"2026-12-24 18:00\", or 2026-12-24T18:00:00Z")
}

// maxLifetime is the longest lifetime of a token that ends at all.
const maxLifetime = 3650 * 24 * time.Hour

// parseLifetime reads a lifetime in seconds; 0: without end.
func parseLifetime(flag, text string) (int64, error) {
	if text == "0" || text == "" {
		return 0, nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, model.Errorf(model.Invalid, "%s: %w", flag, err).WithHint("for example 1h or 30d; 0: without end")
	}
	if d < model.Duration(time.Second) || d > model.Duration(maxLifetime) {
		return 0, model.Errorf(model.Invalid, "%s %s: expected 1s to %s", flag, text, model.Duration(maxLifetime)).WithHint("0: without end")
	}
	return int64(d) / 1e9, nil
}

// durationFlag implements pflag.Value in the notation of resources: 30s, 5m, 7d.
type durationFlag struct{ d *model.Duration }

// String implements pflag.Value.
func (f *durationFlag) String() string { return f.d.String() }

// Type implements pflag.Value.
func (f *durationFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (f *durationFlag) Set(text string) (err error) {
	*f.d, err = model.ParseDuration(text)
	return err
}
