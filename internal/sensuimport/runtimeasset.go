package sensuimport

import (
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// runtimeAssets are those that a check names, and those of its hooks, which have what the check
// has.
func (im *importer) runtimeAssets(o *object, c *model.CheckSpec) {
	for _, of := range o.spec.texts("runtime_assets") {
		im.needs(o, &c.Assets, of, "check")
	}
	for _, h := range c.Hooks {
		im.hookNamed[made{"Hook", im.ns(o), h.Hook}] = true
		for _, of := range im.hookAssets[made{"Hook", im.ns(o), h.Hook}] {
			if before := len(c.Assets); im.needs(o, &c.Assets, of, "check") && len(c.Assets) > before {
				im.said(o, "asset %s is of its hook %s: the check's command has it, too", of, h.Hook)
			}
		}
	}
	for i, a := range c.Assets {
		for _, b := range c.Assets[:i] {
			if !im.oneMachine(o, a, b) {
				im.lost(o, "runtime_assets: no machine has an archive of %s and one of %s, so that the check is UNKNOWN everywhere: make one Asset of the builds of both, or two checks", b, a)
			}
		}
	}
}

// assetsOf are those that a handler, mutator or filter names.
func (im *importer) assetsOf(o *object, what string) (list []string) {
	for _, of := range o.spec.texts("runtime_assets") {
		im.needs(o, &list, of, what)
	}
	return list
}

// needs lets a check, or what is called otherwise, have an asset; false: it is not there.
func (im *importer) needs(o *object, list *[]string, of, what string) bool {
	ref := name(of)
	switch {
	case im.made[made{"Asset", im.ns(o), ref}] == nil && im.by[key{"Asset", o.namespace, of}] != nil:
		im.lost(o, "asset %s was not carried: the %s runs without it", of, what)
		return false
	case im.made[made{"Asset", im.ns(o), ref}] == nil:
		im.lost(o, "asset %s is not in these files", of)
		return false
	case slices.Contains(*list, ref):
	case len(*list) == model.MaxAssets:
		im.lost(o, "asset %s: a %s has at most %d", of, what, model.MaxAssets)
		return false
	default:
		*list = append(*list, ref)
	}
	return true
}

// assetsOfHooks says of which hooks no check could take the assets.
func (im *importer) assetsOfHooks() {
	for i := range im.objects {
		o := &im.objects[i]
		m := made{"Hook", im.ns(o), name(o.name)}
		list := im.hookAssets[m]
		if o.kind != "Hook" && o.kind != "HookConfig" || len(list) == 0 || im.hookNamed[m] {
			continue
		}
		im.lost(o, "runtime_assets: %s: a hook has those of the check that names it: write them into its assets", strings.Join(list, ", "))
	}
}

// oneMachine says whether a machine could have an archive of both.
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
	return im.made[made{"Asset", im.ns(o), of}].Spec.(*model.AssetSpec).Builds
}

// keyOfSensu is what is no part of a variable's name.
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
