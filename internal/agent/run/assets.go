package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraries is where programs look for shared libraries first.
const libraries = "LD_LIBRARY_PATH"

// within are the folders of that name in the command's assets.
func (c *Command) within(name string) (dirs []string) {
	for _, a := range c.Assets {
		dirs = append(dirs, filepath.Join(a.Dir, name))
	}
	return dirs
}

// withLibraries adds the assets' libraries in front of those that the environment or the
// check names, and where each asset is.
func (c *Command) withLibraries(env []string) []string {
	if len(c.Assets) == 0 {
		return env
	}
	before, set := c.Env[libraries]
	if i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, libraries+"=") }); i >= 0 {
		if !set {
			before = strings.TrimPrefix(env[i], libraries+"=")
		}
		env = slices.Delete(env, i, i+1)
	}
	dirs := c.within("lib")
	if before != "" {
		dirs = append(dirs, before)
	}
	env = append(env, libraries+"="+strings.Join(dirs, string(os.PathListSeparator)))
	for _, a := range c.Assets {
		env = append(env, assetVariable(a.Name)+"="+a.Dir)
	}
	return env
}

// assetVariable is the variable in which a command finds where an asset is: CHECK_PLUGINS_PATH
// of check-plugins, as in Sensu.
func assetVariable(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name)) + "_PATH"
}
