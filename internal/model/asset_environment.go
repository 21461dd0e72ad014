package model

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// AssetDir is the folder with the extracted archive of an Asset.
type AssetDir struct {
	Name string // as it was named; its variable NAME_PATH is called after it
	Dir  string
}

// assetLists maps variables that hold lists of folders to the folder of an asset that is put in front.
func assetLists() map[string]string {
	return map[string]string{"PATH": "bin", "LD_LIBRARY_PATH": "lib", "CPATH": "include"}
}

// AssetEnvironment returns the environment of a command: inherited variables, own ones, and the folders of its
// assets. A list of folders in own replaces the inherited list; the folders of assets come before either.
func AssetEnvironment(inherited []string, own map[string]string, assets []AssetDir) []string {
	lists := assetLists()
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

// AssetVariable returns the variable that holds an asset's folder, as in Sensu: CHECK_PLUGINS_PATH for
// check-plugins.
func AssetVariable(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name)) + "_PATH"
}

// SelectBuild returns the first archive for a machine with these facts; nil: there is none.
func SelectBuild(builds []AssetBuild, facts map[string]string) *AssetBuild {
	for i := range builds {
		if builds[i].Matches(facts) {
			return &builds[i]
		}
	}
	return nil
}

// MissingBuildError returns the error for an asset without an archive for a machine with these facts. whose names
// the machine in the message: this machine.
func MissingBuildError(name, whose string, facts map[string]string) error {
	machine := AssetBuild{OS: facts["os"], Arch: facts["arch"], Distribution: facts["distribution"], DistributionVersion: facts["distributionVersion"]}
	asset := name
	if ns, of, elsewhere := strings.Cut(name, "/"); elsewhere {
		asset = "-n " + ns + " " + of
	}
	return Errorf(NotFound, "asset %s has no archive for %s (%s)", name, whose, machine.Platform()).
		WithHint("muster asset add %s FILE --os %s --arch %s", asset, machine.OS, machine.Arch)
}
