package sensuimport

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"

	"github.com/muster-fleet/muster/internal/model"
)

// assetArchive is one archive of a Sensu asset, with the platforms that its filters select.
type assetArchive struct {
	path      string // builds[2]; empty: the asset is one archive itself
	spec      *objectFields
	filters   []string
	archive   model.AssetBuild
	platforms []model.AssetBuild // platforms that the archive's filters match
}

// importAsset converts a Sensu asset, with one build for each platform in the filters of its archives. Of all builds
// that match a machine Sensu takes the first of those with the most filters, Muster the first: builds are sorted by
// the number of filters.
func importAsset(o *object) {
	var builds []assetArchive
	if list := o.spec.objects("builds"); len(list) > 0 {
		for i, s := range list {
			builds = append(builds, assetArchive{path: fmt.Sprintf("builds[%d]: ", i), spec: s})
		}
		for _, unused := range []string{"url", "sha512", "filters", "headers"} {
			if !isDefaultValue(o.spec.value(unused)) {
				o.noteChange("%s is ignored beside builds, as in Sensu", unused)
			}
		}
	} else {
		builds = []assetArchive{{spec: o.spec}}
	}
	var good []assetArchive
	for _, b := range builds {
		if readArchive(o, &b) {
			good = append(good, b)
		}
	}
	slices.SortStableFunc(good, func(a, b assetArchive) int { return cmp.Compare(len(b.filters), len(a.filters)) })
	spec := &model.AssetSpec{}
	for i := range good {
		addArchiveBuilds(o, spec, &good[i])
	}
	if len(spec.Builds) == 0 {
		o.noteLoss("none of its archives was imported: muster asset add NAME --url URL --sha512 SUM")
		return
	}
	if spec.Builds[len(spec.Builds)-1].Platform() != (&model.AssetBuild{}).Platform() {
		o.noteChange("on machines without a matching build Sensu runs the command without it; here the check is UNKNOWN with the reason")
	}
	if ours, theirs := model.AssetVariable(musterName(o.name)), strings.ToUpper(invalidVariableChars.ReplaceAllString(o.name, "_"))+"_PATH"; ours != theirs {
		o.noteChange("the asset's folder is in the variable %s, in Sensu in %s", ours, theirs)
	}
	o.declareResource(spec)
}

// invalidVariableChars matches the characters that Sensu replaces in the name of an asset's environment variable.
var invalidVariableChars = regexp.MustCompile("[^a-zA-Z0-9]+")

// readArchive reads one archive of a Sensu asset, with address, checksum and filters. If the archive is invalid, it
// adds a note and returns false.
func readArchive(o *object, b *assetArchive) bool {
	b.filters = b.spec.texts("filters")
	sum := strings.ToLower(b.spec.text("sha512"))
	headers := b.spec.labels("headers")
	address := b.spec.text("url")
	if _, err := model.ParseAssetSum(sum); err != nil {
		o.noteLoss("%ssha512: not a SHA-512 (128 digits 0-9 and a-f): the archive is not imported", b.path)
		return false
	}
	b.archive = model.AssetBuild{SHA512: sum, URL: assetURL(o, b.path, address, headers)}
	list, wider, err := platformsOf(b.filters)
	if err != nil {
		o.noteLoss("%sfilters: %v: the archive is left out, and its machines take another that fits; muster asset add %s --url URL --sha512 SUM with --os, --arch, --distribution, --distribution-version adds it", b.path, err, musterName(o.name))
		return false
	}
	for _, version := range wider {
		o.noteChange("%splatform_version == %q is distributionVersion: %s, which is also %s.1", b.path, version, version, version)
	}
	b.platforms = list
	return true
}

// assetURL returns the URL from which the Muster server can download a Sensu asset's archive. It returns an
// empty text if a person has to upload the archive. Notes hold no passwords.
func assetURL(o *object, at, text string, headers map[string]string) string {
	upload := "download the archive yourself, then type muster asset add " + musterName(o.name) + " FILE"
	u, err := url.Parse(text)
	switch {
	case text == "":
		o.noteChange("%sno url: upload the archive: muster asset add %s FILE", at, musterName(o.name))
		return ""
	case strings.Contains(text, "{{"):
		o.noteLoss("%surl: the server downloads one archive for all nodes, so the address cannot have tokens: %s", at, upload)
		return ""
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		o.noteLoss("%surl: the server downloads only by https and http: %s", at, upload)
		return ""
	case u.User != nil:
		o.noteLoss("%surl: it contains a user or password that every viewer would see: %s", at, upload)
		return ""
	}
	var secret bool
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		if isSecretHeader(header) {
			o.noteLoss("%sheaders: %s: an Asset names no Secret, and the server fetches without it, so its url is left out: %s", at, header, upload)
			secret = true
		} else {
			o.noteLoss("%sheaders: %s: the server fetches without it; if the address wants it, %s", at, header, upload)
		}
	}
	if secret {
		return ""
	}
	return text
}

// isSecretHeader reports whether an HTTP header such as Authorization holds a secret value.
func isSecretHeader(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "cookie", "token", "key", "secret", "password"}, func(word string) bool { return strings.Contains(header, word) })
}

// addArchiveBuilds adds an archive to an asset as one build for each of the archive's platforms. A platform that an
// earlier build matches is left out: as in Sensu, the later build would never be used.
func addArchiveBuilds(o *object, spec *model.AssetSpec, b *assetArchive) {
	if len(b.platforms) == 0 {
		o.noteChange("%sits filters match no machine: not imported", b.path)
	}
	var beyond, never []string
	for _, m := range b.platforms {
		m.SHA512, m.URL = b.archive.SHA512, b.archive.URL
		i := slices.IndexFunc(spec.Builds, func(was model.AssetBuild) bool { return was.Platform() == m.Platform() })
		switch {
		case i >= 0 && spec.Builds[i].SHA512 == m.SHA512:
		case i >= 0:
			never = append(never, m.Platform())
		case len(spec.Builds) == model.MaxBuilds:
			beyond = append(beyond, m.Platform())
		default:
			spec.Builds = append(spec.Builds, m)
		}
	}
	if len(never) > 0 {
		o.noteChange("%snever used for %s: an earlier build matches the same machines, as in Sensu", b.path, strings.Join(never, ", "))
	}
	if len(beyond) > 0 {
		o.noteLoss("%snot for %s: an asset has at most %d builds", b.path, strings.Join(beyond, ", "), model.MaxBuilds)
	}
}

// maxPlatforms bounds the platforms that the filters of one archive match.
const maxPlatforms = 256

// platformsOf returns the platforms on which all filters of an archive are true. wider lists the versions that also
// match longer versions (9 matches 9.4). The error names the part that Muster has no counterpart for.
func platformsOf(filters []string) (list []model.AssetBuild, wider []string, err error) {
	list = []model.AssetBuild{{}}
	var f assetFilter
	for _, source := range filters {
		expression, err := parseExpression(source)
		if err != nil {
			return nil, nil, err
		}
		more, err := f.platforms(expression)
		if err == nil {
			list, err = intersectPlatformLists(list, more)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%q: %w", source, err)
		}
	}
	return list, f.widerVersions, nil
}

// assetFilter translates the JavaScript filter expressions of an asset's archive to platforms. A platform has
// an operating system, architecture and distribution.
type assetFilter struct{ widerVersions []string }

// platforms returns the platforms (operating system, processor) on which a filter expression is true.
func (f *assetFilter) platforms(e ast.Expression) ([]model.AssetBuild, error) {
	switch e := e.(type) {
	case *ast.BooleanLiteral:
		if e.Value {
			return []model.AssetBuild{{}}, nil
		}
		return nil, nil
	case *ast.BinaryExpression:
		switch e.Operator {
		case token.LOGICAL_AND, token.LOGICAL_OR:
			left, err := f.platforms(e.Left)
			if err != nil {
				return nil, err
			}
			right, err := f.platforms(e.Right)
			if err != nil {
				return nil, err
			}
			if e.Operator == token.LOGICAL_AND {
				return intersectPlatformLists(left, right)
			}
			if len(left)+len(right) > maxPlatforms {
				return nil, fmt.Errorf("the filter matches more than %d platforms", maxPlatforms)
			}
			return append(left, right...), nil
		case token.EQUAL, token.STRICT_EQUAL:
			if literalOf(e.Left) != "" {
				return f.platformsOfComparison(e.Right, e.Left, e.Operator)
			}
			return f.platformsOfComparison(e.Left, e.Right, e.Operator)
		case token.LESS, token.LESS_OR_EQUAL, token.GREATER, token.GREATER_OR_EQUAL:
			return platformsOfRange(e)
		}
	}
	return nil, fmt.Errorf("a build can only test os, arch, distribution and distributionVersion")
}

// platformsOfComparison returns the platforms on which the comparison of an entity field with a literal is true. It
// compares an entity field with a literal.
func (f *assetFilter) platformsOfComparison(of, literal ast.Expression, operator token.Token) ([]model.AssetBuild, error) {
	want, whole := literalOf(literal), numberText(literal) != ""
	if major, parsed := readsMajorVersion(of); major {
		for _, c := range want {
			if c < '0' || c > '9' {
				return nil, fmt.Errorf("the filter compares the first number of a version with %q, which is not a whole number", want)
			}
		}
		if want == "" || len(want) > 1 && want[0] == '0' || operator == token.STRICT_EQUAL && whole != parsed {
			return nil, fmt.Errorf("the first number of platform_version never equals the value in the filter")
		}
		return []model.AssetBuild{{DistributionVersion: want}}, nil
	}
	path, err := pathOf(of)
	if err != nil || len(path) != 3 || path[0] != "entity" || path[1] != "system" {
		return nil, fmt.Errorf("a build can only test os, arch, distribution and distributionVersion")
	}
	if !slices.Contains([]string{"os", "arch", "platform", "platform_family", "platform_version", "arm_version"}, path[2]) {
		return nil, fmt.Errorf("a build cannot test %s, only os, arch, arm_version, platform, platform_family and platform_version", path[2])
	}
	if path[2] == "arm_version" {
		if n, err := strconv.ParseUint(want, 10, 7); err != nil || n < 5 || n > 7 || operator == token.STRICT_EQUAL && !whole {
			return nil, fmt.Errorf("invalid value in the filter: arm_version is 5, 6 or 7")
		}
		return []model.AssetBuild{{Arch: "armv" + want}}, nil
	}
	if whole || want == "" || len(want) > 256 || strings.ContainsFunc(want, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("the filter compares %s with a text that is not one word", path[2])
	}
	switch path[2] {
	case "os":
		return []model.AssetBuild{{OS: want}}, nil
	case "arch":
		return []model.AssetBuild{{Arch: want}}, nil
	case "platform_version":
		f.widerVersions = append(f.widerVersions, want)
		return []model.AssetBuild{{DistributionVersion: want}}, nil
	}
	platforms := []string{want}
	if path[2] == "platform_family" {
		if platforms = distributionsOfFamily[want]; platforms == nil {
			return nil, fmt.Errorf("unknown family of distributions %s", want)
		}
	}
	var list []model.AssetBuild
	for _, platform := range platforms {
		list = append(list, model.AssetBuild{Distribution: platform})
		if id := releaseIDs[platform]; id != "" {
			list = append(list, model.AssetBuild{Distribution: id})
		}
	}
	return list, nil
}

// platformsOfRange returns the platforms (distribution versions) on which a filter's comparison of versions is
// true. An example is parseInt(platform_version) >= 8.
func platformsOfRange(e *ast.BinaryExpression) ([]model.AssetBuild, error) {
	of, operator, number := e.Left, e.Operator, numberText(e.Right)
	if turned := numberText(e.Left); turned != "" {
		of, number = e.Right, turned
		operator = map[token.Token]token.Token{token.LESS: token.GREATER, token.GREATER: token.LESS,
			token.LESS_OR_EQUAL: token.GREATER_OR_EQUAL, token.GREATER_OR_EQUAL: token.LESS_OR_EQUAL}[operator]
	}
	n, err := strconv.ParseUint(number, 10, 15)
	major, parsed := readsMajorVersion(of)
	if err != nil || !major || !parsed {
		return nil, fmt.Errorf("a build can only compare the first number of platform_version, as parseInt(entity.system.platform_version) >= 8")
	}
	r := model.VersionRange{}
	switch operator {
	case token.GREATER:
		r.Min = int(n) + 1
	case token.GREATER_OR_EQUAL:
		r.Min = int(n)
	case token.LESS:
		r.End = int(n)
	default:
		r.End = int(n) + 1
	}
	if r.End == 0 && r.Min == 0 { // < 0 and >= 0
		if operator == token.LESS {
			return nil, nil
		}
		return []model.AssetBuild{{}}, nil
	}
	return []model.AssetBuild{{DistributionVersion: r.String()}}, nil
}

// readsMajorVersion reports whether a filter expression takes the major version of the platform, as parseInt
// does. It knows the usual ways. parsed reports that the value is a number, not a text.
func readsMajorVersion(e ast.Expression) (is, parsed bool) {
	if call, ok := e.(*ast.CallExpression); ok {
		callee, ok := call.Callee.(*ast.Identifier)
		n := len(call.ArgumentList)
		if !ok || callee.Name != "parseInt" || n < 1 || n > 2 || n == 2 && numberText(call.ArgumentList[1]) != "10" {
			return false, false
		}
		if path, err := pathOf(call.ArgumentList[0]); err == nil {
			return strings.Join(path, ".") == "entity.system.platform_version", true
		}
		is, _ = readsMajorVersion(call.ArgumentList[0])
		return is, true
	}
	first, ok := e.(*ast.BracketExpression)
	if !ok || numberText(first.Member) != "0" {
		return false, false
	}
	call, ok := first.Left.(*ast.CallExpression)
	if !ok || len(call.ArgumentList) != 1 || literalOf(call.ArgumentList[0]) != "." {
		return false, false
	}
	path, err := pathOf(call.Callee)
	return err == nil && strings.Join(path, ".") == "entity.system.platform_version.split", false
}

// literalOf returns the text of a string or number literal in a filter expression, or "". Other expressions
// give an empty text.
func literalOf(e ast.Expression) string {
	if s, ok := e.(*ast.StringLiteral); ok {
		return s.Value.String()
	}
	return numberText(e)
}

// intersectPlatformLists returns the platforms that are in both lists.
func intersectPlatformLists(left, right []model.AssetBuild) (list []model.AssetBuild, err error) {
	if len(left)*len(right) > maxPlatforms*maxPlatforms {
		return nil, fmt.Errorf("the filter matches more than %d platforms", maxPlatforms)
	}
	for _, a := range left {
		for _, b := range right {
			if one, ok := intersectPlatforms(a, b); ok {
				list = append(list, one)
			}
		}
	}
	if len(list) > maxPlatforms {
		return nil, fmt.Errorf("the filter matches more than %d platforms", maxPlatforms)
	}
	return list, nil
}

// intersectPlatforms returns the platform that a machine must have if both a and b must match. Without a common
// platform it returns false.
func intersectPlatforms(a, b model.AssetBuild) (out model.AssetBuild, ok bool) {
	both := func(x, y string) string {
		if x == "" || y == "" || x == y {
			return cmp.Or(x, y)
		}
		ok = false
		return ""
	}
	ok = true
	arch, other := a.Arch, b.Arch
	if strings.HasPrefix(other, arch+"v") || arch == "" { // arm allows armv7
		arch = other
	} else if strings.HasPrefix(arch, other+"v") {
		other = arch
	}
	out = model.AssetBuild{OS: both(a.OS, b.OS), Arch: both(arch, other), Distribution: both(a.Distribution, b.Distribution)}
	x, y := a.DistributionVersion, b.DistributionVersion
	v, w := rangeOf(x), rangeOf(y)
	switch { // 9 allows 9.4
	case v != nil && w != nil:
		r := model.VersionRange{Min: max(v.Min, w.Min), End: min(v.End, w.End)}
		if v.End == 0 || w.End == 0 {
			r.End = max(v.End, w.End)
		}
		if _, err := model.ParseVersionRange(r.String()); err != nil {
			return out, false // no version is in both
		}
		x, y = r.String(), r.String()
	case v != nil && y != "" && (&model.AssetBuild{DistributionVersion: x}).Matches(map[string]string{"distributionVersion": y}):
		x = y
	case w != nil && x != "" && (&model.AssetBuild{DistributionVersion: y}).Matches(map[string]string{"distributionVersion": x}):
		y = x
	case strings.HasPrefix(y, x+"."):
		x = y
	case strings.HasPrefix(x, y+"."):
		y = x
	}
	out.DistributionVersion = both(x, y)
	return out, ok
}

// rangeOf returns the range of distribution versions of an asset's build, or nil without a range.
func rangeOf(version string) *model.VersionRange {
	r, _ := model.ParseVersionRange(version)
	return r
}

// distributionsOfFamily lists the distributions of each platform_family, in the words of Sensu's agents.
var distributionsOfFamily = map[string][]string{
	"debian": {"debian", "ubuntu", "linuxmint", "raspbian"},
	"rhel":   {"redhat", "centos", "rocky", "almalinux", "oracle", "amazon", "scientific", "cloudlinux", "xenserver", "ibm_powerkvm", "enterpriseenterprise"},
	"suse":   {"sles", "sled", "suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "opensuse-tumbleweed-kubic", "caasp"},
	"fedora": {"fedora"}, "gentoo": {"gentoo"}, "slackware": {"slackware"}, "arch": {"arch"}, "exherbo": {"exherbo"},
	"alpine": {"alpine"}, "coreos": {"coreos"}, "solus": {"solus"},
}

// releaseIDs maps Sensu's name of a distribution to its ID in /etc/os-release, which Muster's agents report, where the two
// names differ.
var releaseIDs = map[string]string{"redhat": "rhel", "oracle": "ol", "amazon": "amzn"}
