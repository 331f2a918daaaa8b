#!/usr/bin/env bash
echo "made for $ZCP_URI"
