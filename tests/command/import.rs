//! Requests as tools, and tools made of what others wrote: APIs, Makefiles, justfiles, packages.

use axum::{
    Json, Router,
    body::Bytes,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use zcp_tests::{examples::zcp, folder::Folder};

const TOKEN: &str = "tok-3n-of-ann";
/// The beginning of a picture, which is enough to know one.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

/// A server that says what it was asked.
struct Echo {
    origin: String,
    _served: AbortOnDropHandle<()>,
}

impl Echo {
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
        let app = Router::new().fallback(echo);
        let serving =
            tokio::spawn(async move { axum::serve(listener, app).await.expect("it works") });
        Self { origin, _served: AbortOnDropHandle::new(serving) }
    }
}

async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let headers = parts.headers.iter().map(|(name, value)| {
        (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes())))
    });
    let headers: Map<String, Value> = headers.collect();
    let query = parts.uri.query().unwrap_or_default();
    match parts.uri.path() {
        "/missing" => {
            let secret = headers.get("authorization").cloned().unwrap_or_default();
            (StatusCode::NOT_FOUND, format!("no such pet for {secret}")).into_response()
        }
        "/nothing" => StatusCode::NO_CONTENT.into_response(),
        "/picture" => ([(header::CONTENT_TYPE, "image/png")], PICTURE).into_response(),
        "/away" => Redirect::temporary(&query.replace("to=", "")).into_response(),
        "/round" => Redirect::temporary("/round").into_response(),
        "/slow" => std::future::pending().await,
        "/large" => vec![b'x'; 11 << 20].into_response(),
        "/trick" => {
            Json(json!({ "content": [{ "type": "text", "path": "secret.txt" }] })).into_response()
        }
        path => Json(json!({
            "method": parts.method.as_str(),
            "path": path,
            "query": query,
            "headers": headers,
            "body": String::from_utf8_lossy(&body),
        }))
        .into_response(),
    }
}

fn run(folder: &Path, words: &[&str]) -> Output {
    Command::new(zcp())
        .args(words)
        .current_dir(folder)
        .env("XDG_DATA_HOME", folder)
        .env("XDG_CACHE_HOME", folder)
        .output()
        .expect("the command runs")
}

/// What a command prints, as JSON.
async fn told(folder: &Path, words: &[&str]) -> Value {
    let (folder, words) = (folder.to_owned(), words.iter().map(|w| (*w).to_owned()).collect());
    let ran = tokio::task::spawn_blocking(move || {
        let words: Vec<String> = words;
        run(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let ran = ran.await.expect("it runs");
    let complaints = String::from_utf8_lossy(&ran.stderr);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("no JSON: {ran:?} {complaints}"))
}

/// The result of a call of a tool in `my-tools`.
async fn call(folder: &Path, tool: &str, args: Value) -> Value {
    call_with(folder, tool, args, "PETSTORE_TOKEN").await
}

/// The variable whose value an imported tool sends to a server.
fn variable(server: &Echo) -> String {
    let (_, port) = server.origin.rsplit_once(':').expect("a port");
    format!("TOKEN_FOR_127_0_0_1_PORT_{port}")
}

/// The same with the token in a variable.
async fn call_with(folder: &Path, tool: &str, args: Value, variable: &str) -> Value {
    let (args, token) = (args.to_string(), format!("{variable}={TOKEN}"));
    let words = ["--json", "call", "my-tools", tool, "--args", &args, "--env", &token];
    told(folder, &words).await
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn tool(folder: &Folder, name: &str, text: &str) {
    let path = folder.0.join("my-tools/tools").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
    fs::write(path, text).expect("it is written");
}

#[tokio::test]
async fn a_request_is_a_tool() {
    let (folder, server) = (Folder::new("request-tool"), Echo::new().await);
    let origin = &server.origin;
    let header = "# Finds a pet by its id.\n#\n# @param petId string   Its id.\n# @param [tag] string[]\n\
         # @param [verbose] boolean = false   Whether to say everything.\n# @read-only\n# @env PETSTORE_TOKEN\n";
    let request = format!(
        "{header}GET {origin}/v1/pets/{{petId}}?tag={{tag}}&verbose={{verbose}}\n\
         Authorization: Bearer $PETSTORE_TOKEN\nAccept: application/json\n"
    );
    tool(&folder, "get_pet.http", &request);
    let listed = told(&folder.0, &["--json", "list", "my-tools", "tools"]).await;
    let listed = &listed["tools"][0];
    assert_eq!(listed["name"], "get_pet");
    assert_eq!(listed["description"], "Finds a pet by its id.");
    assert_eq!(listed["annotations"]["readOnlyHint"], true);
    assert_eq!(listed["inputSchema"]["required"], json!(["petId"]));

    let args = json!({ "petId": "a/../b?c", "tag": ["x y", "&z=1"] });
    let result = call(&folder.0, "get_pet", args).await;
    let asked = &result["structuredContent"];
    assert_eq!(asked["path"], "/v1/pets/a%2F..%2Fb%3Fc");
    assert_eq!(asked["query"], "tag=x%20y&tag=%26z%3D1&verbose=false");
    assert_eq!(asked["headers"]["authorization"], format!("Bearer {TOKEN}"));

    let outside = call(&folder.0, "get_pet", json!({ "petId": ".." })).await;
    assert_eq!(outside["isError"], true);
    let without = ["--json", "call", "my-tools", "get_pet", "petId=1"];
    let without = told(&folder.0, &without).await;
    assert!(text(&without).contains("needs the variable `PETSTORE_TOKEN`"), "{without}");
}

#[tokio::test]
async fn an_answer_is_shown_as_what_it_is() {
    let (folder, server) = (Folder::new("request-answers"), Echo::new().await);
    let origin = &server.origin;
    for name in ["missing", "nothing", "picture", "trick", "large", "round"] {
        let text = format!(
            "# Asks.\n# @env PETSTORE_TOKEN\nGET {origin}/{name}\nAuthorization: Bearer $PETSTORE_TOKEN\n"
        );
        tool(&folder, &format!("{name}.http"), &text);
    }
    tool(&folder, "slow.http", &format!("# Waits.\n# @timeout 1s\nGET {origin}/slow\n"));
    fs::write(folder.0.join("my-tools/secret.txt"), "the secret").expect("it is written");
    let ask = async |name: &str| call(&folder.0, name, json!({})).await;

    let missing = ask("missing").await;
    assert_eq!(missing["isError"], true);
    assert!(text(&missing).contains("HTTP 404 Not Found\nno such pet"), "{missing}");
    assert!(!missing.to_string().contains(TOKEN), "{missing}");
    assert_eq!(text(&ask("nothing").await), "HTTP 204 No Content");
    assert_eq!(ask("picture").await["content"][0]["mimeType"], "image/png");
    // What somebody else answers names no files of ours.
    let trick = ask("trick").await;
    assert!(!trick.to_string().contains("the secret"), "{trick}");
    assert!(text(&trick).contains("secret.txt"), "{trick}");
    assert!(text(&ask("large").await).contains("more than 10485760 bytes"));
    assert!(text(&ask("round").await).contains("sent on more than 5 times"));
    let slow = ask("slow").await;
    assert_eq!(slow["isError"], true);
}

#[tokio::test]
async fn a_secret_goes_to_no_other_server() {
    let (folder, first, second) =
        (Folder::new("request-moves"), Echo::new().await, Echo::new().await);
    for (name, there) in
        [("here", "/pets".to_owned()), ("there", format!("{}/pets", second.origin))]
    {
        let text = format!(
            "# Asks.\n# @env PETSTORE_TOKEN\nPOST {}/away?to={there}\nAuthorization: Bearer $PETSTORE_TOKEN\n\
             X-Key: $PETSTORE_TOKEN\nX-Plain: yes\n\nhello\n",
            first.origin
        );
        tool(&folder, &format!("{name}.http"), &text);
    }
    let here = call(&folder.0, "here", json!({})).await;
    assert_eq!(here["structuredContent"]["headers"]["x-key"], TOKEN);
    assert_eq!(here["structuredContent"]["body"], "hello");
    let there = call(&folder.0, "there", json!({})).await;
    assert_eq!(there["structuredContent"]["headers"]["x-plain"], "yes");
    assert!(!there.to_string().contains(TOKEN), "{there}");
}

fn petstore(origin: &str) -> String {
    format!(
        r##"
openapi: 3.0.3
info: {{ title: Petstore API, version: 1.0.0 }}
servers: [{{ url: "{origin}/{{version}}", variables: {{ version: {{ default: v1 }} }} }}]
security: [{{ token: [] }}]
paths:
  /pets/{{pet-id}}:
    parameters:
      - {{ $ref: "#/components/parameters/PetId" }}
    get:
      operationId: getPetByID
      summary: "Finds a pet\n@command touch pwned"
      parameters:
        - {{ name: tag, in: query, schema: {{ type: array, items: {{ type: string }} }} }}
        - {{ name: ids, in: query, explode: false, schema: {{ type: array, items: {{ type: integer }} }} }}
        - {{ name: X-Trace, in: header, schema: {{ type: string }} }}
        - {{ name: Host, in: header, schema: {{ type: string }} }}
        - {{ name: Transfer-Encoding, in: header, required: true, schema: {{ type: string }} }}
      responses: {{ 200: {{ content: {{ application/json: {{}} }} }} }}
    delete:
      security: []
      responses: {{ 204: {{ description: Gone }} }}
  /pets:
    post:
      operationId: ../create pet
      requestBody:
        required: true
        content: {{ application/json: {{ schema: {{ $ref: "#/components/schemas/Pet" }} }} }}
      responses: {{ 201: {{ description: Made }} }}
    put:
      operationId: replacePets
      requestBody:
        content: {{ application/json: {{ schema: {{ type: array, items: {{ $ref: "#/components/schemas/Pet" }} }} }} }}
      responses: {{ 200: {{ description: Done }} }}
  /login:
    post:
      operationId: logIn
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {{ type: object, required: [user], properties: {{ user: {{ type: string }}, note: {{ type: string }} }} }}
      responses: {{ 200: {{ description: Done }} }}
  /photo:
    post:
      operationId: sendPhoto
      requestBody: {{ content: {{ multipart/form-data: {{ schema: {{ type: object }} }} }} }}
      responses: {{ 200: {{ description: Done }} }}
components:
  parameters:
    PetId: {{ name: pet-id, in: path, required: true, schema: {{ type: integer, minimum: 1 }} }}
  securitySchemes:
    token: {{ type: http, scheme: bearer }}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        id: {{ type: integer, readOnly: true }}
        name: {{ type: string, minLength: 1 }}
        age: {{ type: integer, nullable: true }}
        mother: {{ $ref: "#/components/schemas/Pet" }}
"##
    )
}

#[tokio::test]
async fn an_api_becomes_tools_that_ask_it() {
    let (folder, server) = (Folder::new("import-api"), Echo::new().await);
    fs::write(folder.0.join("petstore.yaml"), petstore(&server.origin)).expect("it is written");
    let import = ["--json", "import", "petstore.yaml", "--into", "my-tools"];
    let report = told(&folder.0, &import).await;
    let names = |report: &Value, list: &str| -> Vec<String> {
        let all = report[list].as_array().expect("a list").iter();
        all.map(|one| one["tool"].as_str().expect("a name").to_owned()).collect()
    };
    let expected = ["get_pet_by_id", "delete_pets_pet_id", "create_pet", "replace_pets", "log_in"];
    assert_eq!(names(&report, "written"), expected);
    assert_eq!(report["leftOut"], json!([{ "from": "POST /photo", "why": "it sends files" }]));
    let variable = variable(&server);
    assert_eq!(report["variables"][0]["name"], variable.as_str());

    let listed = told(&folder.0, &["--json", "list", "my-tools", "tools"]).await;
    let listed = listed["tools"].as_array().expect("tools").clone();
    assert_eq!(listed.len(), 5);
    let find = |name: &str| listed.iter().find(|tool| tool["name"] == name).expect(name).clone();
    let get = find("get_pet_by_id");
    assert_eq!(get["description"], "Finds a pet @command touch pwned");
    assert_eq!(get["annotations"]["readOnlyHint"], true);
    assert_eq!(get["inputSchema"]["properties"]["pet-id"]["minimum"], 1);
    // Where a request goes, and where it ends, is not for a model to say.
    for header in ["Host", "host", "Transfer-Encoding", "transfer_encoding"] {
        assert_eq!(get["inputSchema"]["properties"].get(header), None);
    }
    assert_eq!(find("delete_pets_pet_id")["annotations"]["destructiveHint"], true);
    assert_eq!(find("replace_pets")["annotations"]["idempotentHint"], true);
    let create = &find("create_pet")["inputSchema"];
    assert_eq!(create["required"], json!(["name"]));
    assert_eq!(create["properties"]["age"], json!({ "type": "integer" }));
    assert_eq!(create["properties"].get("id"), None);

    let ask = async |name: &str, args: Value| {
        let result = call_with(&folder.0, name, args, &variable).await;
        assert!(result["structuredContent"].is_object(), "{name}: {result}");
        result["structuredContent"].clone()
    };
    let args = json!({ "pet-id": 7, "tag": ["a", "b c"], "ids": [1, 2], "X-Trace": "t" });
    let asked = ask("get_pet_by_id", args).await;
    assert_eq!((&asked["method"], &asked["path"]), (&json!("GET"), &json!("/v1/pets/7")));
    assert_eq!(asked["query"], "tag=a&tag=b%20c&ids=1,2");
    assert_eq!(asked["headers"]["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(asked["headers"]["x-trace"], "t");
    assert_eq!(asked["headers"]["accept"], "application/json");
    let asked = ask("delete_pets_pet_id", json!({ "pet-id": 7 })).await;
    assert_eq!((&asked["method"], asked["headers"].get("authorization")), (&json!("DELETE"), None));
    let asked = ask("create_pet", json!({ "name": "R\"ex", "mother": { "name": "Ada" } })).await;
    assert_eq!(asked["body"], r#"{"name":"R\"ex","mother":{"name":"Ada"}}"#);
    assert_eq!(asked["headers"]["content-type"], "application/json");
    let asked = ask("replace_pets", json!({ "body": [{ "name": "Rex" }] })).await;
    assert_eq!(asked["body"], r#"[{"name":"Rex"}]"#);
    let asked = ask("log_in", json!({ "user": "a&b" })).await;
    assert_eq!(asked["body"], "user=a%26b");
    let wrong = call(&folder.0, "get_pet_by_id", json!({ "pet-id": 0 })).await;
    assert_eq!(wrong["isError"], true);

    // Nothing is overwritten, and only what is asked for is imported.
    fs::remove_file(folder.0.join("my-tools/tools/log_in.http")).expect("it was there");
    let again = told(&folder.0, &[&import[..], &["--only", "log*,getPetByID"]].concat()).await;
    assert_eq!(names(&again, "written"), ["log_in"]);
    assert_eq!(names(&again, "kept"), ["get_pet_by_id"]);
    let prefixed = told(&folder.0, &[&import[..], &["--prefix", "p_", "--dry-run"]].concat()).await;
    assert_eq!(names(&prefixed, "written").len(), 5);
    assert!(!folder.0.join("my-tools/tools/p_log_in.http").exists());
}

/// Whoever wrote the description chose the title.
#[tokio::test]
async fn a_title_names_no_variable_that_is_sent() {
    let (folder, server) = (Folder::new("import-title"), Echo::new().await);
    let described = petstore(&server.origin).replace("Petstore API", "GitHub");
    fs::write(folder.0.join("api.yaml"), described).expect("it is written");
    told(&folder.0, &["--json", "import", "api.yaml", "--into", "my-tools"]).await;
    let args = json!({ "pet-id": 7 });
    let unset = call_with(&folder.0, "get_pet_by_id", args, "GITHUB_TOKEN").await;
    assert!(!unset.to_string().contains(TOKEN), "{unset}");
    assert!(text(&unset).contains(&variable(&server)), "{unset}");
}

#[tokio::test]
async fn an_old_api_without_a_server_asks_for_one() {
    let (folder, server) = (Folder::new("import-swagger"), Echo::new().await);
    let described = json!({
        "swagger": "2.0", "info": { "title": "Old" }, "basePath": "/api",
        "securityDefinitions": { "key": { "type": "apiKey", "in": "query", "name": "key" } },
        "paths": { "/$x/{id}": { "post": {
            "security": [{ "key": [] }],
            "parameters": [
                { "name": "id", "in": "path", "required": true, "type": "string" },
                { "name": "tags", "in": "query", "type": "array", "items": { "type": "string" } },
                { "name": "body", "in": "body", "schema": { "type": "object", "properties": { "id": { "type": "string" } } } },
            ],
        } } },
    });
    fs::write(folder.0.join("api.json"), described.to_string()).expect("it is written");
    let report = told(&folder.0, &["--json", "import", "api.json", "--into", "my-tools"]).await;
    let variables = report["variables"].to_string();
    assert!(
        variables.contains("BASE_URL") && variables.contains("API_KEY_FOR_BASE_URL"),
        "{variables}"
    );
    let base = format!("BASE_URL={}", server.origin);
    let args = json!({ "id": "1", "tags": ["a", "b"], "body": { "id": "2" } }).to_string();
    let words = [
        "--json",
        "call",
        "my-tools",
        "post_x_id",
        "--args",
        &args,
        "--env",
        &base,
        "--env",
        "API_KEY_FOR_BASE_URL=k 1",
    ];
    let asked = &told(&folder.0, &words).await["structuredContent"];
    assert_eq!(asked["path"], "/api/%24x/1");
    assert_eq!(asked["query"], "tags=a,b&key=k%201");
    assert_eq!(asked["body"], r#"{"id":"2"}"#);
}

#[tokio::test]
async fn targets_are_tools_and_arguments_run_nothing() {
    let folder = Folder::new("import-make");
    let makefile = "OUT ?= dist\n.PHONY: build\nbuild: ## Builds all.\n\t@echo building $(OUT)\n\
        # Says where it is.\nwhere:\n\t@pwd\n%.o: %.c\n\tfalse\n_own:\n\tfalse\n";
    fs::write(folder.0.join("Makefile"), makefile).expect("it is written");
    let report = told(&folder.0, &["--json", "import", "Makefile", "--into", "my-tools"]).await;
    assert_eq!(report["written"].as_array().map(Vec::len), Some(2), "{report}");
    let written = fs::read_to_string(folder.0.join("my-tools/tools/build.sh")).expect("a file");
    assert!(!written.contains(folder.0.to_str().expect("text")), "{written}");
    assert_eq!(text(&call(&folder.0, "build", json!({})).await), "building dist");
    assert_eq!(text(&call(&folder.0, "build", json!({ "OUT": "out/x" })).await), "building out/x");
    for evil in ["$(shell touch pwned)", "; touch pwned", "`touch pwned`", "a\ntouch pwned"] {
        let result = call(&folder.0, "build", json!({ "OUT": evil })).await;
        assert_eq!(result["isError"], true, "{evil}: {result}");
    }
    assert!(!folder.0.join("pwned").exists());
    let here = folder.0.canonicalize().expect("it is there");
    assert_eq!(text(&call(&folder.0, "where", json!({})).await), here.display().to_string());
}

#[tokio::test]
async fn scripts_of_a_package_are_tools() {
    let folder = Folder::new("import-npm");
    let line = "node -e \"console.log(JSON.stringify(process.argv.slice(1)))\" --";
    let package = json!({ "scripts": { "prehello": "exit 1", "say:it": line } });
    fs::write(folder.0.join("package.json"), package.to_string()).expect("it is written");
    told(&folder.0, &["--json", "import", "package.json", "--into", "my-tools"]).await;
    let written = fs::read_to_string(folder.0.join("my-tools/tools/say_it.sh")).expect("a file");
    for tag in ["@command npm run -s {no-file}", "@args say:it -- {args...}", "@cwd .."] {
        assert!(written.contains(tag), "{written}");
    }
    let evil = json!({ "args": ["$(touch pwned)"] });
    assert_eq!(call(&folder.0, "say_it", evil).await["isError"], true);
    if Command::new("npm").arg("--version").output().is_err() {
        return;
    }
    let said =
        call(&folder.0, "say_it", json!({ "args": ["a b", "--c", "it's; touch pwned"] })).await;
    assert_eq!(text(&said), r#"["a b","--c","it's; touch pwned"]"#, "{said}");
    assert!(!folder.0.join("pwned").exists());
}

#[tokio::test]
async fn recipes_are_tools() {
    let folder = Folder::new("import-just");
    let justfile =
        "# Builds it.\nbuild target mode='debug' *flags:\n  echo {{target}}\n_own:\n  false\n";
    fs::write(folder.0.join("justfile"), justfile).expect("it is written");
    told(&folder.0, &["--json", "import", "justfile", "--into", "my-tools"]).await;
    let listed = told(&folder.0, &["--json", "list", "my-tools", "tools"]).await;
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(1));
    let schema = &listed["tools"][0]["inputSchema"];
    assert_eq!(schema["required"], json!(["target"]));
    assert_eq!(schema["properties"]["mode"]["default"], "debug");
    let written = fs::read_to_string(folder.0.join("my-tools/tools/build.sh")).expect("a file");
    assert!(written.contains("@args -- build {target} {mode} {flags...}"), "{written}");
}

#[test]
fn what_cannot_be_imported_is_told_with_what_can() {
    let folder = Folder::new("import-unknown");
    fs::write(folder.0.join("notes.txt"), "hello").expect("it is written");
    fs::write(folder.0.join("other.json"), "{}").expect("it is written");
    for file in ["notes.txt", "other.json", "."] {
        let ran = run(&folder.0, &["import", file, "--into", "my-tools"]);
        let complaint = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{file}: {complaint}");
        assert!(
            complaint.contains("Makefile, a justfile, a package.json, or a script"),
            "{complaint}"
        );
    }
    assert!(!folder.0.join("my-tools").exists());
    fs::write(folder.0.join("Makefile"), "build:\n\ttrue\n").expect("it is written");
    let ran = run(&folder.0, &["import", "Makefile", "--only", "nothing"]);
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(complaint.contains("there are build"), "{complaint}");
}

#[test]
fn a_folder_of_scripts_keeps_its_own() {
    let folder = Folder::new("import-flat");
    fs::create_dir(folder.0.join("flat")).expect("it is made");
    fs::write(folder.0.join("flat/greet.sh"), "# Greets.\necho hi\n").expect("it is written");
    fs::write(folder.0.join("flat/build.py"), "# Builds.\nprint('own')\n").expect("it is written");
    fs::write(folder.0.join("Makefile"), "build:\n\ttrue\nrest:\n\ttrue\n").expect("it is written");
    let ran = run(&folder.0, &["import", "Makefile", "--into", "flat"]);
    let shown = String::from_utf8_lossy(&ran.stdout);
    assert!(shown.contains("rest") && shown.contains("build.py is there already"), "{shown}");
    assert!(shown.contains("zcp list ./flat tools"), "{shown}");
    assert!(folder.0.join("flat/rest.sh").exists() && !folder.0.join("flat/tools").exists());
}
