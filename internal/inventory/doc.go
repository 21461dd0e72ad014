// Package inventory has the form of an inventory: a set of entries by section, such as packages and users of a node. It computes the
// difference of two inventories, and compares versions of packages by the rules of the package manager that reported them.
//
// The package is pure: it has no goroutines and no locks. Start reading at section_schemas.go (the sections and their fields), then entry.go;
// compare_package_versions.go has the rules of dpkg, rpm and apk.
package inventory
