//! The table of clients: one for what reads their files and what writes them.

use super::{
    clients::{Client, Place, Shape},
    edit::Format,
};

const fn everywhere(path: &'static str) -> Place {
    Place { variables: &[], linux: path, mac: path, windows: path }
}

pub(crate) const CLIENTS: [Client; 10] = [
    Client {
        id: "claude-code",
        aliases: &["claudecode"],
        name: "Claude Code",
        user: &[Place {
            variables: &[("CLAUDE_CONFIG_DIR", ".claude.json")],
            ..everywhere("~/.claude.json")
        }],
        project: Some(".mcp.json"),
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Typed,
        remote: Some(("url", Some("http"))),
        is_app: false,
        next: "Start a new session of Claude Code; /mcp shows the server there.",
    },
    Client {
        id: "cursor",
        aliases: &[],
        name: "Cursor",
        user: &[everywhere("~/.cursor/mcp.json")],
        project: Some(".cursor/mcp.json"),
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Plain,
        remote: Some(("url", None)),
        is_app: true,
        next: "Look at the MCP page of Cursor's settings, and switch the server on there.",
    },
    Client {
        id: "gemini",
        aliases: &["gemini-cli"],
        name: "Gemini CLI",
        user: &[Place {
            variables: &[("GEMINI_CLI_HOME", ".gemini/settings.json")],
            ..everywhere("~/.gemini/settings.json")
        }],
        project: Some(".gemini/settings.json"),
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Plain,
        remote: Some(("httpUrl", None)),
        is_app: false,
        next: "Start Gemini CLI again; /mcp shows the server there.",
    },
    Client {
        id: "windsurf",
        aliases: &["codeium"],
        name: "Windsurf",
        user: &[everywhere("~/.codeium/windsurf/mcp_config.json")],
        project: None,
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Plain,
        remote: Some(("serverUrl", None)),
        is_app: true,
        next: "Refresh the MCP servers in Windsurf's Cascade panel.",
    },
    Client {
        id: "codex",
        aliases: &["codex-cli", "openai-codex"],
        name: "Codex",
        user: &[Place {
            variables: &[("CODEX_HOME", "config.toml")],
            ..everywhere("~/.codex/config.toml")
        }],
        project: Some(".codex/config.toml"),
        format: Format::Toml,
        servers: "mcp_servers",
        shape: Shape::Plain,
        remote: Some(("url", None)),
        is_app: false,
        next: "Start Codex again; /mcp shows the server there. A project's file counts where you trust the project.",
    },
    Client {
        id: "claude-desktop",
        aliases: &["claudedesktop", "claude-app"],
        name: "Claude Desktop",
        user: &[Place {
            variables: &[],
            linux: "$config/Claude/claude_desktop_config.json",
            mac: "~/Library/Application Support/Claude/claude_desktop_config.json",
            windows: "$appdata/Claude/claude_desktop_config.json",
        }],
        project: None,
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Plain,
        remote: None,
        is_app: true,
        next: "Quit Claude Desktop, and start it again.",
    },
    Client {
        id: "vscode",
        aliases: &["vs-code", "code", "visual-studio-code", "copilot"],
        name: "VS Code",
        user: &[Place {
            variables: &[("VSCODE_PORTABLE", "user-data/User/mcp.json")],
            linux: "$config/Code/User/mcp.json",
            mac: "~/Library/Application Support/Code/User/mcp.json",
            windows: "$appdata/Code/User/mcp.json",
        }],
        project: Some(".vscode/mcp.json"),
        format: Format::Json,
        servers: "servers",
        shape: Shape::Typed,
        remote: Some(("url", Some("http"))),
        is_app: true,
        next: "Run `MCP: List Servers` in VS Code, and start the server there.",
    },
    Client {
        id: "zed",
        aliases: &[],
        name: "Zed",
        user: &[Place {
            variables: &[],
            linux: "$config/zed/settings.json",
            mac: "~/.config/zed/settings.json",
            windows: "$appdata/Zed/settings.json",
        }],
        project: Some(".zed/settings.json"),
        format: Format::Json,
        servers: "context_servers",
        shape: Shape::Plain,
        remote: Some(("url", None)),
        is_app: true,
        next: "Zed starts it at once; its agent's settings show it with a green dot.",
    },
    Client {
        id: "goose",
        aliases: &["block-goose"],
        name: "Goose",
        user: &[Place {
            variables: &[("GOOSE_PATH_ROOT", "config/config.yaml")],
            linux: "$config/goose/config.yaml",
            mac: "$config/goose/config.yaml",
            windows: "$appdata/Block/goose/config/config.yaml",
        }],
        project: None,
        format: Format::Yaml,
        servers: "extensions",
        shape: Shape::Goose,
        remote: Some(("uri", Some("streamable_http"))),
        is_app: true,
        next: "Start a new session of Goose.",
    },
    Client {
        id: "cline",
        aliases: &[],
        name: "Cline",
        user: &[
            Place {
                variables: &[
                    ("CLINE_MCP_SETTINGS_PATH", ""),
                    ("CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
                ],
                ..everywhere("~/.cline/data/settings/cline_mcp_settings.json")
            },
            // Where it was before all of its editors shared one.
            Place {
                variables: &[],
                linux: "$config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                mac: "~/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                windows: "$appdata/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            },
        ],
        project: None,
        format: Format::Json,
        servers: "mcpServers",
        shape: Shape::Plain,
        remote: Some(("url", Some("streamableHttp"))),
        is_app: true,
        next: "Cline starts it at once; its MCP servers page shows it.",
    },
];
