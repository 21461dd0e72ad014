package sensuimport

import (
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// importCheckAssets adds the assets that a check names and the assets of its hooks, which run with the check's.
func importCheckAssets(o *object, c *model.CheckSpec) {
	for _, of := range o.spec.texts("runtime_assets") {
		addAsset(o, &c.Assets, of, "check")
	}
	for _, h := range c.Hooks {
		o.importer.hookNamed[resourceKey{"Hook", o.targetNamespace(), h.Hook}] = true
		for _, of := range o.importer.hookAssets[resourceKey{"Hook", o.targetNamespace(), h.Hook}] {
			if before := len(c.Assets); addAsset(o, &c.Assets, of, "check") && len(c.Assets) > before {
				o.noteChange("asset %s is of its hook %s: the check's command has it, too", of, h.Hook)
			}
		}
	}
	for i, a := range c.Assets {
		for _, b := range c.Assets[:i] {
			if !shareMachine(o, a, b) {
				o.noteLoss("runtime_assets: no machine has an archive of %s and one of %s, so that the check is UNKNOWN everywhere: make one Asset of the builds of both, or two checks", b, a)
			}
		}
	}
}

// assetsOf returns the assets that a handler, mutator or filter names.
func assetsOf(o *object, what string) (list []string) {
	for _, of := range o.spec.texts("runtime_assets") {
		addAsset(o, &list, of, what)
	}
	return list
}

// addAsset adds an asset to the list of a check, handler, mutator or filter; false: it does not exist.
func addAsset(o *object, list *[]string, of, what string) bool {
	ref := name(of)
	switch {
	case o.find("Asset", ref) == nil && o.importer.by[key{"Asset", o.namespace, of}] != nil:
		o.noteLoss("asset %s was not carried: the %s runs without it", of, what)
		return false
	case o.find("Asset", ref) == nil:
		o.missing("asset", of, "")
		return false
	case slices.Contains(*list, ref):
	case len(*list) == model.MaxAssets:
		o.noteLoss("asset %s: a %s has at most %d", of, what, model.MaxAssets)
		return false
	default:
		*list = append(*list, ref)
	}
	return true
}

// noteHookAssets notes a hook whose assets no check carries.
func noteHookAssets(o *object) {
	at := resourceKey{"Hook", o.targetNamespace(), name(o.name)}
	if list := o.importer.hookAssets[at]; (o.kind == "Hook" || o.kind == "HookConfig") && len(list) > 0 && !o.importer.hookNamed[at] {
		o.noteLoss("runtime_assets: %s: a hook has those of the check that names it: write them into its assets", strings.Join(list, ", "))
	}
}

// shareMachine reports whether a machine could have an archive of both.
func shareMachine(o *object, a, b string) bool {
	for _, x := range buildsOf(o, a) {
		for _, y := range buildsOf(o, b) {
			if _, ok := inCommon(x, y); ok {
				return true
			}
		}
	}
	return false
}

func buildsOf(o *object, of string) []model.AssetBuild {
	return o.find("Asset", of).Spec.(*model.AssetSpec).Builds
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
