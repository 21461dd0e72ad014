// Package version says which build this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker: see Makefile. The commit is needed where the build itself does
// not record it.
var (
	version = "dev"
	commit  string
)

// Info is the version information in `muster version -o json` and /api/v1/version.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"` // of the commit
	Dirty   bool   `json:"dirty,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Get returns the build's version information.
func Get() Info {
	info := Info{Version: version, Commit: commit, Dirty: strings.HasSuffix(version, "-dirty"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			info.Dirty = s.Value == "true"
		}
	}
	return info
}

// String returns the version, the shortened commit and the build's other data in one line.
func (i Info) String() string {
	commit := i.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if i.Dirty {
		commit += "+changes"
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	return fmt.Sprintf("muster %s%s %s %s/%s", i.Version, commit, i.Go, i.OS, i.Arch)
}
