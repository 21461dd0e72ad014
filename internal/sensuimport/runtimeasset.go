package sensuimport

import (
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// runtimeAssets adds the assets that a check names and the assets of its hooks, which run with the check's.
func (im *importer) runtimeAssets(o *object, c *model.CheckSpec) {
	for _, of := range o.spec.texts("runtime_assets") {
		im.addAsset(o, &c.Assets, of, "check")
	}
	for _, h := range c.Hooks {
		im.hookNamed[resourceKey{"Hook", im.ns(o), h.Hook}] = true
		for _, of := range im.hookAssets[resourceKey{"Hook", im.ns(o), h.Hook}] {
			if before := len(c.Assets); im.addAsset(o, &c.Assets, of, "check") && len(c.Assets) > before {
				im.noteChanged(o, "asset %s is of its hook %s: the check's command has it, too", of, h.Hook)
			}
		}
	}
	for i, a := range c.Assets {
		for _, b := range c.Assets[:i] {
			if !im.oneMachine(o, a, b) {
				im.noteLost(o, "runtime_assets: no machine has an archive of %s and one of %s, so that the check is UNKNOWN everywhere: make one Asset of the builds of both, or two checks", b, a)
			}
		}
	}
}

// assetsOf returns the assets that a handler, mutator or filter names.
func (im *importer) assetsOf(o *object, what string) (list []string) {
	for _, of := range o.spec.texts("runtime_assets") {
		im.addAsset(o, &list, of, what)
	}
	return list
}

// addAsset adds an asset to the list of a check, handler, mutator or filter; false: it does not exist.
func (im *importer) addAsset(o *object, list *[]string, of, what string) bool {
	ref := name(of)
	switch {
	case im.find("Asset", im.ns(o), ref) == nil && im.by[key{"Asset", o.namespace, of}] != nil:
		im.noteLost(o, "asset %s was not carried: the %s runs without it", of, what)
		return false
	case im.find("Asset", im.ns(o), ref) == nil:
		im.missing(o, "asset", of, "")
		return false
	case slices.Contains(*list, ref):
	case len(*list) == model.MaxAssets:
		im.noteLost(o, "asset %s: a %s has at most %d", of, what, model.MaxAssets)
		return false
	default:
		*list = append(*list, ref)
	}
	return true
}

// assetsOfHooks notes the hooks whose assets no check carries.
func (im *importer) assetsOfHooks() {
	for i := range im.objects {
		o := &im.objects[i]
		m := resourceKey{"Hook", im.ns(o), name(o.name)}
		list := im.hookAssets[m]
		if o.kind != "Hook" && o.kind != "HookConfig" || len(list) == 0 || im.hookNamed[m] {
			continue
		}
		im.noteLost(o, "runtime_assets: %s: a hook has those of the check that names it: write them into its assets", strings.Join(list, ", "))
	}
}

// oneMachine reports whether a machine could have an archive of both.
func (im *importer) oneMachine(o *object, a, b string) bool {
	for _, x := range im.builds(o, a) {
		for _, y := range im.builds(o, b) {
			if _, ok := inCommon(x, y); ok {
				return true
			}
		}
	}
	return false
}

func (im *importer) builds(o *object, of string) []model.AssetBuild {
	return im.find("Asset", im.ns(o), of).Spec.(*model.AssetSpec).Builds
}

// keyOfSensu matches characters that are no part of a variable's name.
var keyOfSensu = regexp.MustCompile("[^a-zA-Z0-9]+")

// assetVariable is the variable in which a command finds where an asset lies.
func assetVariable(asset string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(asset)) + "_PATH"
}

var tokenAsset = regexp.MustCompile(`^assetPath\s+["` + "`" + `]([^"` + "`" + `]+)["` + "`" + `]$`)

// assetPath is the name of the variable that says where an asset is: {{ assetPath "x" }}.
func assetPath(token string) (variable string, ok bool) {
	m := tokenAsset.FindStringSubmatch(token)
	if m == nil {
		return "", false
	}
	return assetVariable(name(m[1])), true
}
