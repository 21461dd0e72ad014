package probe

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func fileProbe() Probe {
	return Probe{
		Name: "file", Summary: "Whether a file is there (or is not), how old it is and how large.",
		Args: []Arg{
			{Name: "path", Type: Text, Must: true, Help: "file or glob pattern; of several the newest counts for age, and each for size"},
			{Name: "exists", Type: Bool, Default: "true", Help: "false: critical when there is one"},
			{Name: "warnAge", Type: Duration, Help: "warning when older (time of the last change of contents)"},
			{Name: "critAge", Type: Duration, Help: "critical when older"},
			{Name: "minSize", Type: Size, Help: "critical when smaller"},
			{Name: "maxSize", Type: Size, Help: "critical when larger"},
		},
		run: runFile,
	}
}

func runFile(_ context.Context, env *Env, a args, r *report) {
	pattern := a.text("path")
	paths, err := filepath.Glob(env.path(pattern))
	if err != nil {
		r.add(model.Unknown, "path %q: %v", pattern, err)
		return
	}
	if len(paths) == 0 {
		if _, err := os.Lstat(env.path(pattern)); err == nil {
			paths = []string{env.path(pattern)} // a name that looks like a pattern
		}
	}
	if !a.bool("exists") {
		if len(paths) > 0 {
			r.add(model.Critical, "%s exists", paths[0])
		} else {
			r.add(model.OK, "%s does not exist", pattern)
		}
		return
	}
	var newest os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			r.add(model.Unknown, "%v", err)
			continue
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			newest = info
		}
		if least, ok := a.size("minSize"); ok && info.Size() < least {
			r.add(model.Critical, "%s has %s, less than %s", path, bytesText(float64(info.Size())), model.Size(least))
		}
		if most, ok := a.size("maxSize"); ok && info.Size() > most {
			r.add(model.Critical, "%s has %s, more than %s", path, bytesText(float64(info.Size())), model.Size(most))
		}
	}
	if newest == nil {
		if len(paths) == 0 {
			r.add(model.Critical, "%s does not exist", pattern)
		}
		return
	}
	age := env.now().Sub(newest.ModTime())
	warn, hasWarn := a.duration("warnAge")
	crit, hasCrit := a.duration("critAge")
	r.add(statusAbove(age, warn, hasWarn, crit, hasCrit), "%s is %s old and has %s", newest.Name(), ageText(max(age, 0)), bytesText(float64(newest.Size())))
	r.measure("age", age.Truncate(time.Second).Seconds(), "s", upTo(warn.Seconds(), hasWarn), upTo(crit.Seconds(), hasCrit), nan(), nan())
	r.measure("size", float64(newest.Size()), "B", nil, nil, 0, nan())
}
