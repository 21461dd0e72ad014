package model

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// AssetSpec is an archive with programs that the commands of checks and handlers need. The server keeps it; the
// agents whose checks name it fetch it.
type AssetSpec struct {
	// One archive for each kind of machine. A node takes the first one that matches it.
	Builds []AssetBuild `json:"builds"`
}

// AssetBuild is one archive of an Asset, for machines with a given operating system and processor.
type AssetBuild struct {
	// The archive's SHA-512, as sha512sum prints it. Archives reach the server by muster asset add, or from url.
	SHA512 string `json:"sha512"`
	// Where the server fetches the archive if nobody uploads it. Agents never connect there.
	URL string `json:"url,omitempty"`
	// The operating system, compared with the fact os: linux, windows. Default: any.
	OS string `json:"os,omitempty"`
	// The processor, compared with the fact arch: amd64, arm64; armv7 is arm with the fact armVersion 7. Default: any.
	Arch string `json:"arch,omitempty"`
	// Compared with the fact distribution: debian, rhel. Default: any.
	Distribution string `json:"distribution,omitempty"`
	// Compared with the fact distributionVersion or its beginning: 9 matches 9.4, too. >=8, <10 and >=8,<10 compare its first
	// number. Default: any.
	DistributionVersion string `json:"distributionVersion,omitempty"`
}

// Kind returns the name of the resource kind, Asset.
func (*AssetSpec) Kind() string { return "Asset" }

const (
	// MaxAssets bounds the assets of one check or handler, MaxBuilds the archives of one asset.
	MaxAssets = 16
	MaxBuilds = 64
	// MaxAssetBytes bounds one archive.
	MaxAssetBytes = 512 << 20
)

// ParseAssetSum parses a SHA-512 in hexadecimal digits.
func ParseAssetSum(text string) (sum [64]byte, err error) {
	if len(text) == 2*len(sum) {
		if _, err := hex.Decode(sum[:], []byte(text)); err == nil && strings.ToLower(text) == text {
			return sum, nil
		}
	}
	return sum, Errorf(Invalid, "%q is not a SHA-512: expected 128 characters of 0-9 and a-f", Shorten(text)).WithHint("sha512sum FILE; muster asset add NAME FILE does this for you")
}

// Matches reports whether the archive is built for a machine with the given facts (os, arch and others).
func (b *AssetBuild) Matches(facts map[string]string) bool {
	is := func(want, fact string) bool { return want == "" || want == facts[fact] }
	return is(b.OS, "os") && (is(b.Arch, "arch") || facts["armVersion"] != "" && b.Arch == facts["arch"]+"v"+facts["armVersion"]) && is(b.Distribution, "distribution") && matchesVersion(b.DistributionVersion, facts["distributionVersion"])
}

// matchesVersion reports whether a Linux distribution's version fits the version or range that an archive
// requires.
func matchesVersion(want, version string) bool {
	if r, err := ParseVersionRange(want); err != nil || r != nil {
		first, _, _ := strings.Cut(version, ".")
		major, wrong := strconv.Atoi(first)
		return err == nil && wrong == nil && r.Min <= major && (r.End == 0 || major < r.End)
	}
	return want == "" || version == want || strings.HasPrefix(version, want+".")
}

// VersionRange is a range of major versions (the first number of a version), such as >=8,<10.
type VersionRange struct {
	Min int // the lowest
	End int // the first above the range; 0: no end
}

// String returns the range in the form that ParseVersionRange reads.
func (r VersionRange) String() string {
	switch {
	case r.End == 0:
		return fmt.Sprintf(">=%d", r.Min)
	case r.Min == 0:
		return fmt.Sprintf("<%d", r.End)
	}
	return fmt.Sprintf(">=%d,<%d", r.Min, r.End)
}

// ParseVersionRange parses a range of major versions, such as >=8, <10 or >=8,<10. It returns nil for a plain version,
// such as 9.4.
func ParseVersionRange(text string) (*VersionRange, error) {
	if !strings.ContainsAny(text, "<>") {
		return nil, nil
	}
	r := VersionRange{}
	for part := range strings.SplitSeq(text, ",") {
		bound := &r.Min
		number, ok := strings.CutPrefix(part, ">=")
		if !ok {
			bound = &r.End
			number, ok = strings.CutPrefix(part, "<")
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil || n == 0 || *bound != 0 {
			return nil, Errorf(Invalid, "%q is not a range of versions: expected >=8, <10 or >=8,<10", Shorten(text))
		}
		*bound = int(n)
	}
	if r.End > 0 && r.End <= r.Min {
		return nil, Errorf(Invalid, "%q contains no version", Shorten(text))
	}
	return &r, nil
}

// Platform describes the machines for which an archive is built, such as linux amd64.
func (b *AssetBuild) Platform() string {
	text := strings.Join(strings.Fields(b.OS+" "+b.Arch+" "+b.Distribution+" "+b.DistributionVersion), " ")
	if text == "" {
		return "any machine"
	}
	return text
}

// AssetDir has the name of an Asset and the local folder into which its archive was extracted
type AssetDir struct {
	Name string // as it was named; its variable NAME_PATH is called after it
	Dir  string
}

// assetPathVariables returns, by variable such as PATH, the subfolder of an Asset to put first in the variable.
// The subfolder comes first in the list.
func assetPathVariables() map[string]string {
	return map[string]string{"PATH": "bin", "LD_LIBRARY_PATH": "lib", "CPATH": "include"}
}

// AssetEnvironment returns a command's environment, in which the folders of its Assets come first in PATH. The folders
// come first in PATH and similar lists. A list of folders in own replaces the inherited list; the folders of assets
// come before either.
func AssetEnvironment(inherited []string, own map[string]string, assets []AssetDir) []string {
	lists := assetPathVariables()
	before := map[string]string{}
	env := make([]string, 0, len(inherited)+len(own)+len(assets)+len(lists))
	for _, kv := range inherited {
		name, value, _ := strings.Cut(kv, "=")
		if lists[name] != "" {
			before[name] = value
		} else {
			env = append(env, kv)
		}
	}
	for _, a := range assets {
		env = append(env, AssetVariable(a.Name)+"="+a.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if lists[name] != "" {
			before[name] = own[name]
		} else {
			env = append(env, name+"="+own[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		var dirs []string
		for _, a := range assets {
			dirs = append(dirs, filepath.Join(a.Dir, lists[name]))
		}
		value, said := before[name]
		if value != "" {
			dirs = append(dirs, value)
		}
		if said || len(dirs) > 0 {
			env = append(env, name+"="+strings.Join(dirs, string(os.PathListSeparator)))
		}
	}
	return env
}

// AssetVariable returns the name of the environment variable that holds an Asset's folder, as in Sensu. For
// check-plugins it is CHECK_PLUGINS_PATH.
func AssetVariable(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name)) + "_PATH"
}

// SelectBuild returns the first archive of an Asset that fits a machine with the given facts. It returns nil if no
// archive fits.
func SelectBuild(builds []AssetBuild, facts map[string]string) *AssetBuild {
	for i := range builds {
		if builds[i].Matches(facts) {
			return &builds[i]
		}
	}
	return nil
}

// MissingBuildError returns the error about an Asset that has no archive for a machine's platform. whose names the
// machine in the message: this machine.
func MissingBuildError(name, whose string, facts map[string]string) error {
	machine := AssetBuild{OS: facts["os"], Arch: facts["arch"], Distribution: facts["distribution"], DistributionVersion: facts["distributionVersion"]}
	asset := name
	if ns, of, elsewhere := strings.Cut(name, "/"); elsewhere {
		asset = "-n " + ns + " " + of
	}
	return Errorf(NotFound, "asset %s has no archive for %s (%s)", name, whose, machine.Platform()).
		WithHint("muster asset add %s FILE --os %s --arch %s", asset, machine.OS, machine.Arch)
}
