//go:build !linux

package faults

var childRoles map[string]Role
